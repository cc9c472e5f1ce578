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

from runtime.cli import Command
from senteval_runner.config import SentEvalConfig


def main(config: SentEvalConfig) -> int:
    """Evaluate and write the report; exit code 2 when no task could be scored."""
    config.check_words()
    from senteval_runner.running import run

    return run(config)


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
