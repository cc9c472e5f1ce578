"""Run the whole pipeline on books that are in the package: ``make demo``.

    python -m senteval_runner.demo

It runs four commands of the project as a user would type them, and prints each before it runs:

1. parse 28,000 sentences of books (``corpora.books``);
2. train the builtin encoder further on them;
3. train new views on them from random weights;
4. score both models on other books, and to compare with the builtin encoder, the average of the new model's
   words, and random words.

It writes trees, models, scores and a self-contained ``report.html`` to ``runs/demo/``. A finished step is not
repeated, so a stopped demo continues where it was.
"""

import sys
import time
from importlib import import_module
from pathlib import Path

from runtime.cli import Command, configuration
from runtime.errors import UserError
from runtime.files import read_json, write_json, write_text
from senteval_runner.demo import MODEL, NEW_MODEL, SCORES, TREES, VECTORS

SECONDS_FILE = "seconds.json"
SENTENCE = "The lawyer praised the doctor who had written to her."
"""The sentence whose trees are printed before the first step."""


@configuration
class DemoConfig:
    """Options of the demo."""

    output: Path = Path("runs/demo")
    """Folder for trees, model, scores and report.html."""


def commands(output: Path) -> dict[str, list[str]]:
    """Return the module and the arguments of the command of each step, by the title of the step."""
    trees, model, new_model = output / TREES, output / MODEL, output / NEW_MODEL
    train = ["multiview.train", "--trees", trees, "--output", model.parent, "--name"]
    recipe = "--start none --views dep,const --objective.score cosine --loop.epochs 4"
    score = ["senteval_runner.run", model, "builtin", new_model, f"bag:{new_model}", "bag:random"]
    score += ["--no-baselines", "--tasks", "Authors,Neighbours,Binding", "--protocol", "fast"]
    score += ["--trees", trees.parent, "--cache", output / VECTORS, "--output", output / SCORES]
    steps = {
        "parse the books": ["parsing.run", "books", "--output", trees],
        "go on from builtin": [*train, model.name, "--loop.epochs", "1", "--objective.keep", "5"],
        "train new views from nothing": [*train, new_model.name, *recipe.split()],
        "score on other books": score,
    }
    return {title: [str(word) for word in words] for title, words in steps.items()}


def run_step(title: str, module: str, *arguments: str) -> float:
    """Run ``python -m MODULE ARGUMENTS`` in this process, and return how many seconds it took.

    Raises SystemExit if Ctrl-C stopped the command, UserError if the command refused its input, and
    RuntimeError if it failed. In each case the command has printed the reason.
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
    """Run all steps, write the report, and print where everything is."""
    output = config.output
    seconds_file = output / SECONDS_FILE
    seconds = read_json(seconds_file) if seconds_file.exists() else {}
    if not seconds:
        from parsing.text_parser import load

        print(f"== A sentence and both of its trees\n{load()(SENTENCE)}", flush=True)
    steps = commands(output)
    for number, (title, words) in enumerate(steps.items(), start=1):
        seconds_now = run_step(f"{number}/{len(steps) + 1} {title}", *words)
        # In a second run of the demo the step is finished, and takes no time.
        seconds[title] = max(seconds_now, seconds.get(title, 0.0))
        write_json(seconds_file, seconds)
    print(f"\n== {len(steps) + 1}/{len(steps) + 1} write the report", flush=True)
    from senteval_runner.demo.page import demo_page

    times = [
        (title, f"{seconds[title]:.0f}", f"python -m {' '.join(words)}") for title, words in steps.items()
    ]
    report = output / "report.html"
    write_text(report, demo_page(output, times).html())
    print("seconds: " + ", ".join(f"{title} {value}" for title, value, _ in times))
    print(f"trees    {output / TREES}\nmodel    {output / MODEL}\nscores   {output / SCORES / 'report.html'}")
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
