"""The whole pipeline on books that are in the package: ``make demo``.

    python -m senteval_runner.demo

Runs the three commands of the project as a user would type them, and prints each before it runs: parse 28,000
sentences of books (``corpora.books``), train a dependency and a constituency view on them, and score the
model on books that nothing has seen, beside the same model before training, the average of its words, random
words and the encoder in the package. Writes trees, model, scores and a self-contained ``report.html`` under
``runs/demo/``. A step that was done is not done again; a stopped demo continues where it was.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from corpora.support.cli import Command, configuration
from corpora.support.errors import UserError
from corpora.support.files import read_json, write_json

TASKS = "Authors,Neighbours,Binding"
MODEL = "books"
"""Name of the trained model."""
SECONDS = "seconds.json"


@configuration
class DemoConfig:
    """Options of the demo."""

    output: Path = Path("runs/demo")
    """Folder for trees, model, scores and report.html."""

    @property
    def trees(self) -> Path:
        """The parsed books."""
        return self.output / "trees" / "books"

    @property
    def model(self) -> Path:
        """The trained model."""
        return self.output / "models" / MODEL

    @property
    def scores(self) -> Path:
        """The report of SentEval."""
        return self.output / "scores"


def commands(config: DemoConfig) -> dict[str, list[str]]:
    """The words of each step's command, after ``python -m``."""
    parse = ["parsing.run", "books", "--output", config.trees]
    train = ["multiview.train", "--views", "dep,const", "--trees", config.trees]
    train += ["--output", config.model.parent, "--name", config.model.name]
    score = ["senteval_runner.run", config.model, f"bag:{config.model}", "builtin", "--tasks", TASKS]
    score += ["--protocol", "fast", "--trees", config.trees.parent, "--cache", config.output / "vectors"]
    score += ["--output", config.scores]
    steps = {"parse the books": parse, "train two views": train, "score on other books": score}
    return {title: [str(word) for word in words] for title, words in steps.items()}


def run_step(title: str, module: str, *arguments: str) -> float:
    """Run ``python -m MODULE ARGUMENTS`` as a user would type it; return its seconds.

    Raises:
        UserError: the step refused its input (it has said why).
        RuntimeError: the step failed.
    """
    print(f"\n== {title}\n$ python -m {module} {' '.join(arguments)}", flush=True)
    began = time.monotonic()
    code = subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode
    if code in (130, 143):
        raise KeyboardInterrupt
    if code == 2:
        raise UserError(f"stopped at: python -m {module} {' '.join(arguments)}")
    if code:
        raise RuntimeError(f"python -m {module} ended with exit code {code}")
    return time.monotonic() - began


def main(config: DemoConfig) -> None:
    """Parse, train, score, report."""
    noted = config.output / SECONDS
    seconds = read_json(noted) if noted.exists() else {}
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
