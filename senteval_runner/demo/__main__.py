"""Run the whole pipeline on books that are in the package: ``make demo``.

    python -m senteval_runner.demo

It runs four commands of the project as a user would type them, and prints each before it runs: parse 28,000
sentences of books (``corpora.books``), go on with them from the encoder in the package, train new views on
them from nothing, and score both on other books, beside that encoder, the average of its words and random
words. It writes trees, model, scores and a self-contained ``report.html`` under
``runs/demo/``. A finished step is not repeated; a stopped demo continues where it was.
"""

import sys
import time
from importlib import import_module
from pathlib import Path

from runtime.cli import Command, configuration
from runtime.errors import UserError
from runtime.files import read_json, write_json, write_text

SECONDS_FILE = "seconds.json"
SENTENCE = "The lawyer praised the doctor who had written to her."
"""A sentence whose trees are shown while one waits for those of the books."""


@configuration
class DemoConfig:
    """Options of the demo."""

    output: Path = Path("runs/demo")
    """Folder for trees, model, scores and report.html."""


def commands(trees: Path, model: Path, new_model: Path, scores: Path, vectors: Path) -> dict[str, list[str]]:
    """Return the words of each step's command after ``python -m``, by the step's title."""
    parse = ["parsing.run", "books", "--output", trees]
    train = ["multiview.train", "--trees", trees, "--output", model.parent, "--name"]
    recipe = "--start none --views dep,const --objective.score cosine --loop.epochs 4"
    score = ["senteval_runner.run", model, "builtin", new_model, f"bag:{new_model}", "bag:random"]
    score += ["--no-baselines", "--tasks", "Authors,Neighbours,Binding", "--protocol", "fast"]
    score += ["--trees", trees.parent, "--cache", vectors, "--output", scores]
    steps = {
        "parse the books": parse,
        "go on from builtin": [*train, model.name, "--loop.epochs", "1", "--objective.keep", "5"],
        "train new views from nothing": [*train, new_model.name, *recipe.split()],
        "score on other books": score,
    }
    return {title: [str(word) for word in words] for title, words in steps.items()}


def run_step(title: str, module: str, *arguments: str) -> float:
    """Run ``python -m MODULE ARGUMENTS`` in this process, and return how many seconds it took.

    Raises SystemExit: the step was stopped by Ctrl-C, and has said so; UserError: it refused its input, and
    has said why; RuntimeError: it failed.
    """
    command = f"python -m {module} {' '.join(arguments)}"
    print(f"\n== {title}\n$ {command}", flush=True)
    began = time.monotonic()
    code = import_module(module).cli([*arguments])
    if code in (130, 143):
        raise SystemExit(code)
    if code == 2:
        raise UserError(f"stopped at: {command}")
    if code:
        raise RuntimeError(f"python -m {module} ended with exit code {code}")
    return time.monotonic() - began


def main(config: DemoConfig) -> None:
    """Parse, train, score, report."""
    output = config.output
    trees, scores = output / "trees/books", output / "scores"
    models = output / "models/books", output / "models/books-new"
    seconds_file = output / SECONDS_FILE
    seconds = read_json(seconds_file) if seconds_file.exists() else {}
    if not seconds:
        from parsing.text_parser import load

        print(f"== A sentence and both of its trees\n{load()(SENTENCE)}", flush=True)
    steps = commands(trees, *models, scores, output / "vectors")
    for number, (title, words) in enumerate(steps.items(), start=1):
        seconds_now = run_step(f"{number}/{len(steps) + 1} {title}", *words)
        seconds[title] = max(seconds_now, seconds.get(title, 0.0))  # a second run finds the step finished
        write_json(seconds_file, seconds)
    print(f"\n== {len(steps) + 1}/{len(steps) + 1} write the report", flush=True)
    from senteval_runner.demo.page import demo_page

    times = [
        (title, f"{seconds[title]:.0f}", f"python -m {' '.join(words)}") for title, words in steps.items()
    ]
    report = output / "report.html"
    write_text(report, demo_page(trees, *models, scores, output / "vectors", times).html())
    print("seconds: " + ", ".join(f"{title} {value}" for title, value, _ in times))
    print(f"trees    {trees}\nmodel    {models[0]}\nscores   {scores / 'report.html'}")
    print(f"report   {report}   <- open this in a browser")


cli = Command(
    DemoConfig,
    main,
    "senteval_runner.demo",
    (__doc__ or "").split("\n")[0],
    folder_of=lambda config: config.output,
)


if __name__ == "__main__":
    sys.exit(cli())
