"""Score models on SentEval: results.json, a Markdown table, an HTML report.

    python -m senteval_runner.run runs/models/mine --tasks MR,CR,TREC,SICK-R --data data/senteval
    python -m senteval_runner.run A B A+B random:dep,const --tasks mv --seeds 1111,1112 --project 4096

Input: names of models (docs/senteval.md) and the folder of SentEval's data.

Output: ``results.json``, ``results.csv`` (one score a line), ``results.md``, ``results.tex`` and
``report.html``. They are written to ``--output`` or, without that option, to a folder below
``runs/reports/senteval`` whose name is made from the models, the tasks and a digest of the options. Each
finished task is kept with its predictions in ``parts/`` below ``--output`` or ``runs/reports/senteval``.

Every distinct sentence is parsed once per pair of parsers (``--trees``) and encoded once per model
(``--cache``). A stopped run is resumed by the same command, because finished tasks are not repeated.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from corpora.senteval.tasks import data_folder, expand_tasks, tasks_in
from multiview.names.grammar import HELP, parse_names
from parsing.names import find_parser
from runtime.cli import Command, Count, CountOrNone, Seed, config_to_json, configuration, log_to
from runtime.errors import UserError
from runtime.files import json_digest, write_json
from runtime.folders import refuse_others

REPORTS = Path("runs/reports/senteval")
OPTIONS_NOT_IN_NAME = ("output", "cache", "trees", "data", "device")
"""Options that are left out of the digest in a report's name: they are places of files, and a device, which
changes last digits. The files of ``data`` are compared with those of a kept score when this is read."""
RANDOM_WORDS = "bag:random"
"""The baseline that is scored with the models: a mean of random word vectors, which knows no meanings."""


def report_name(options: dict[str, Any], words: Iterable[str]) -> str:
    """Return the name of the folder of a command's report: ``words``, and a digest of the options.

    ``options`` are those of the command as JSON. ``words`` are the names of models and tasks; of a path only
    the last part is used.
    """
    decisive_options = {key: value for key, value in options.items() if key not in OPTIONS_NOT_IN_NAME}
    names = "+".join(words).split("+")
    subject = "-".join(Path(name).name for name in names)
    folder_name = re.sub(r"[^\w.=-]+", "-", subject).strip("-.")
    return f"{folder_name[:60] or 'report'}-{json_digest(decisive_options, 6)}"


@configuration
class SentEvalConfig:
    """Options of ``senteval_runner.run``."""

    models: Annotated[Positional[tuple[str, ...]], arg(metavar="MODEL...", help=HELP)]
    """Names of encoders, in the forms of :data:`multiview.names.grammar.PREFIXES`."""
    tasks: str = "mv"
    """Tasks and groups, separated by commas: mv (the paper's), sts, sst, probing, all, structure,
    books (both made of the books in the package); SentEval's names, or
    those of papers (SICK-R, SICK-E, STS-B, BShift, ...)."""
    data: Path | None = None
    """Folder with downstream/ and probing/; None is $MULTIVIEW_DATA, else data."""
    protocol: Literal["default", "fast", "sklearn"] = "default"
    """default for comparable scores, fast for quick ones, sklearn for scikit-learn's logistic regression."""
    seeds: str = "1111"
    """Seeds separated by commas; several give mean ± standard deviation."""
    nhid: CountOrNone = 0
    """Width of the classifiers' hidden layer; 0 is logistic regression."""
    project: Count | None = None
    """Apply a fixed random matrix to this many dimensions first (the control for embedding size)."""
    expand: str | None = None
    """Expand the vocabulary of multi-view models by these word vectors (least squares, as Skip-Thought): a
    file."""
    random_seed: Seed = 0
    """Seed of random encoders and of the projection."""
    output: Path | None = None
    """Folder of the report; None is one below runs/reports/senteval, named by models, tasks and options."""
    baselines: bool = True
    """Score random words too and, where the tree cache of its training is here, every trained model before
    its first step (start:MODEL)."""
    cache: Path = Path("runs/embeddings")
    """Folder of sentence vectors, one subfolder per model."""
    trees: Path = Path("runs/trees")
    """Folder for the parsed sentences (in senteval-PARSERS/), or a finished tree cache."""
    dep_model: str = ""
    """Dependency parser that the models were trained with, unless it is the builtin one."""
    const_model: str = ""
    """Constituency parser that the models were trained with, unless it is the builtin one."""
    device: str | None = None
    """Device of the models, e.g. cpu or cuda; None is a GPU if there is one."""

    @property
    def folder(self) -> Path:
        """The folder of the report: ``output``, or a folder that is named by the options."""
        return self.output or REPORTS / report_name(config_to_json(self), [*self.models, self.tasks])


def seeds_of(text: str) -> list[int]:
    """Return the seeds that the text of ``--seeds`` lists, each once.

    Raises UserError if a word of the text is no whole number below 2**32, or there is no word.
    """
    words = text.replace(",", " ").split()
    seeds = [int(word) for word in words if word.isascii() and word.isdigit()]
    if not seeds or len(seeds) < len(words) or max(seeds) >= 2**32:
        raise UserError(f"--seeds {text!r}: expected whole numbers from 0 to 2**32 - 1 separated by commas")
    return list(dict.fromkeys(seeds))


def main(config: SentEvalConfig) -> int:
    """Score the models, write the report, and return 2 if no task could be scored, else 0.

    Options are checked before torch is imported, so that a mistake is reported at once.
    """
    if not config.models:
        raise UserError("name at least one model")
    names = [parse_names(spec) for spec in dict.fromkeys(config.models)]
    parsers = {"dep": config.dep_model, "const": config.const_model}
    for kind, parser in parsers.items():
        find_parser(kind, parser or "builtin")
    seeds = seeds_of(config.seeds)
    task_names = expand_tasks(config.tasks)
    data = data_folder(config.data, task_names)
    from senteval_runner.evaluation import read_tasks
    from senteval_runner.evaluation_trees import EvaluationTrees
    from senteval_runner.models import expand_models, names_before_training, open_models, score_models
    from senteval_runner.protocol.config import get_protocol
    from senteval_runner.result_store import ResultStore
    from senteval_runner.results import write_results

    folder = config.folder
    if config.expand is not None:
        names = expand_models(names, config.expand)
    starts = names_before_training(names) if config.baselines else {}
    baselines = [start for start in starts.values() if start]
    if config.baselines or not set(task_names).isdisjoint(tasks_in("structure")):
        baselines.insert(0, RANDOM_WORDS)
    tasks = read_tasks(task_names, data)
    models = open_models(
        names + [parse_names(baseline) for baseline in baselines],
        EvaluationTrees(folder=config.trees, tasks=tasks.data, parsers=parsers),
        cache=config.cache,
        device=config.device,
        seed=config.random_seed,
        project=config.project,
    )
    refuse_others(folder, "models")
    with log_to(folder) as logger:
        write_json(folder / "config.json", config_to_json(config))
        for model, start in starts.items():
            if not start:
                logger.warning(
                    "%s: left out before its first step: no tree cache of its training here", model
                )
        protocol = get_protocol(config.protocol, nhid=config.nhid)
        # Reports in their default folders share finished tasks.
        score_models(models, tasks, seeds, ResultStore((config.output or REPORTS) / "parts", protocol))
        write_results(folder, models, protocol, config_to_json(config))
    models_of_command = models[: len(names)]
    return 0 if any(model.results for model in models_of_command) else 2


cli = Command(
    SentEvalConfig,
    main,
    "senteval_runner.run",
    (__doc__ or "").split("\n")[0],
    folder_of=lambda config: config.folder,
    kept_work="finished tasks and encoded sentences are kept; the same command resumes",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
