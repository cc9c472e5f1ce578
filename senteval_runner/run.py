"""Score models on SentEval: results.json, a Markdown table, an HTML report.

    python -m senteval_runner.run runs/models/mine --tasks MR,CR,TREC,SICK-R --data data/senteval
    python -m senteval_runner.run A B A+B random:dep,const --tasks mv --seeds 1111,1112 --project 4096

Input: models (see ``multiview.names.sources``) and SentEval's data folder. Output: ``--output``, or a folder
of ``runs/reports/senteval`` of the command's own, with ``results.json``, ``results.csv`` (one score a line),
``results.md``, ``results.tex``, ``report.html``; predictions per item in ``parts/``, there or beside it.
Every distinct sentence is parsed once per pair of parsers (``--trees``) and encoded once per model
(``--cache``). Finished tasks are not repeated: the same command resumes a stopped run.
"""

from __future__ import annotations

import sys

from runtime.cli import Command, config_to_json, log_to
from runtime.files import write_json
from runtime.folders import refuse_others
from senteval_runner.config import SentEvalConfig


def main(config: SentEvalConfig) -> int:
    """Evaluate and write the report; exit code 2 when no task could be scored."""
    config.check_words()
    from corpora.senteval.tasks import data_folder, expand_tasks
    from senteval_runner.cells import Cells
    from senteval_runner.evaluation import read_tasks
    from senteval_runner.protocol.config import get_protocol
    from senteval_runner.results import write_results
    from senteval_runner.scoring import open_models, score_models, select_models
    from senteval_runner.vectors import EvaluationTrees

    names, folder, options = expand_tasks(config.tasks), config.folder, config_to_json(config)
    protocol = get_protocol(config.protocol, nhid=config.nhid)
    selection = select_models(config.models, names, vectors=config.expand, beside=config.baselines)
    tasks, missing = read_tasks(names, data_folder(config.data, names))
    parsers = {"dep": config.dep_model, "const": config.const_model}
    models = open_models(
        selection.specs,
        EvaluationTrees(folder=config.trees, tasks=tasks, parsers=parsers),
        cache=config.cache,
        seed=config.random_seed,
        project=config.project,
        device=config.device,
        missing=missing,
    )
    refuse_others(folder, "models")
    logger = log_to(folder)
    write_json(folder / "config.json", options)
    for note in [*selection.notes, *(f"skipped {name}: {reason}" for name, reason in missing.items())]:
        logger.warning("%s", note)
    score_models(models, tasks, config.seed_list, Cells(config.cells, protocol))
    write_results(folder, models, protocol, options)
    return 0 if any(model.results for model in models[: selection.requested]) else 2


cli = Command(
    SentEvalConfig,
    main,
    "senteval_runner.run",
    (__doc__ or "").split("\n")[0],
    owns=lambda config: config.folder,
    kept="finished tasks and encoded sentences are kept; the same command resumes",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
