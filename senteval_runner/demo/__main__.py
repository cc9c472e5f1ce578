"""The whole pipeline on books that are in the package: ``make demo``.

    python -m senteval_runner.demo

Runs the three commands of the project as a user would type them, and prints each before it runs: parse 28,000
sentences of books (``corpora.books``), train a dependency and a constituency view on them, and score the
model on books that nothing has seen, beside the same model before training, the average of its words, random
words and the encoder in the package. Writes trees, model, scores and a self-contained ``report.html`` under
``runs/demo/``. A step that was done is not done again; a stopped demo continues where it was.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module

from runtime.cli import Command
from runtime.errors import UserError
from runtime.files import read_json, write_json
from senteval_runner.demo.steps import DemoConfig, commands

SECONDS = "seconds.json"
SENTENCE = "The lawyer praised the doctor who had written to her."
"""Of which the trees are shown while one waits for those of the books."""


def run_step(title: str, module: str, *arguments: str) -> float:
    """Run ``python -m MODULE ARGUMENTS`` as a user would type it, but in this process; return its seconds.

    Raises:
        SystemExit: the step was stopped by Ctrl-C (it has said so).
        UserError: the step refused its input (it has said why).
        RuntimeError: the step failed.
    """
    print(f"\n== {title}\n$ python -m {module} {' '.join(arguments)}", flush=True)
    began = time.monotonic()
    code = import_module(module).cli([*arguments])
    if code in (130, 143):
        raise SystemExit(code)
    if code == 2:
        raise UserError(f"stopped at: python -m {module} {' '.join(arguments)}")
    if code:
        raise RuntimeError(f"python -m {module} ended with exit code {code}")
    return time.monotonic() - began


def main(config: DemoConfig) -> None:
    """Parse, train, score, report."""
    noted = config.output / SECONDS
    seconds = read_json(noted) if noted.exists() else {}
    if not seconds:
        from parsing.text_parser import load

        print(f"== A sentence and both of its trees\n{load()(SENTENCE)}", flush=True)
    for number, (title, words) in enumerate(commands(config).items(), start=1):
        took = run_step(f"{number}/4 {title}", *words)
        seconds[title] = max(took, seconds.get(title, 0.0))  # a second run finds everything done
        write_json(noted, seconds)
    print("\n== 4/4 write the report", flush=True)
    from senteval_runner.demo.page import write_report

    report = write_report(config, seconds)
    print("seconds: " + ", ".join(f"{title} {value:.0f}" for title, value in seconds.items()))
    print(f"trees    {config.trees}\nmodel    {config.model}\nscores   {config.scores / 'report.html'}")
    print(f"report   {report}   <- open this in a browser")


cli = Command(
    DemoConfig,
    main,
    "senteval_runner.demo",
    (__doc__ or "").split("\n")[0],
    owns=lambda config: config.output,
)


if __name__ == "__main__":
    sys.exit(cli())
