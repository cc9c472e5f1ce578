"""The whole pipeline on text that every machine has: ``make demo``.

    python -m senteval_runner.demo

Parses the embedded ``books`` corpus (parts of English books), adapts the
encoder of the installation to it, evaluates neighbour retrieval on books that it has not seen, and writes
trees, model, ``results.json`` and a self-contained ``report.html`` under ``runs/demo/``. Every step is an
ordinary command, printed before it runs; a stopped demo continues where it was.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from corpora.support.cli import Command, configuration
from corpora.support.errors import UserError

ADAPTED = "adapted"
"""Name of the installation's encoder, read out for this text."""


@configuration
class DemoConfig:
    """Size of the demo; the defaults take about five minutes on two cores."""

    output: Path = Path("runs/demo")
    """Folder for trees, model, results.json and report.html."""
    sentences: str = "32k"
    """Training sentences."""
    held_out: str = "10k"
    """At most this many sentences of held-out packages for the evaluation (there are about 15,600)."""


def run_step(title: str, module: str, *arguments: object) -> float:
    """Run ``python -m MODULE ARGUMENTS`` as a user would type it; return its seconds.

    Raises:
        UserError: the step refused its input (it has said why).
        RuntimeError: the step failed.
    """
    words = [str(argument) for argument in arguments]
    print(f"\n== {title}\n$ python -m {module} {' '.join(words)}", flush=True)
    began = time.monotonic()
    code = subprocess.run([sys.executable, "-m", module, *words], check=False).returncode
    if code == 130:
        raise KeyboardInterrupt
    if code == 2:
        raise UserError(f"stopped at: python -m {module} {' '.join(words)}")
    if code:
        raise RuntimeError(f"python -m {module} ended with exit code {code}")
    return time.monotonic() - began


def main(config: DemoConfig) -> None:
    """Parse, adapt, evaluate, report."""
    trees, model = config.output / "trees", config.output / "models" / ADAPTED
    training, held_out = trees / "books-train", trees / "books-heldout"
    books = ("parsing.run", "books", "--split")
    steps = {
        "parse the training text": (*books, "train", "--limit", config.sentences, "--output", training),
        "parse the held-out packages": (*books, "heldout", "--limit", config.held_out, "--output", held_out),
        "adapt the encoder in the package": ("multiview.readout", "builtin", training, "--output", model),
    }
    seconds = {
        title: run_step(f"{number}/4 {title}", *map(str, words))
        for number, (title, words) in enumerate(steps.items(), start=1)
    }
    print("\n== 4/4 neighbour retrieval on the held-out packages", flush=True)
    from senteval_runner.demo.retrieval import evaluate, retrieval_table, write_report

    began = time.monotonic()
    scores = evaluate(model, training, held_out)
    seconds["evaluate"] = time.monotonic() - began
    report = write_report(config, held_out, scores, seconds)
    print(retrieval_table(scores).markdown())
    print("seconds: " + ", ".join(f"{step} {value:.0f}" for step, value in seconds.items()))
    print(f"trees    {trees}\nmodel    {model}\nresults  {config.output / 'results.json'}")
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
