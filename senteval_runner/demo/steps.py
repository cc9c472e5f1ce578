"""The demo's options, and the three commands that it runs."""

from __future__ import annotations

from pathlib import Path

from runtime.cli import configuration

TASKS = "Authors,Neighbours,Binding"
MODEL = "books"
"""Name of the trained model."""


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
    recipe = "--views dep,const --objective.score cosine --loop.epochs 4"
    train = ["multiview.train", *recipe.split(), "--trees", config.trees]
    train += ["--output", config.model.parent, "--name", config.model.name]
    score = ["senteval_runner.run", config.model, f"bag:{config.model}", "builtin", "--tasks", TASKS]
    score += ["--protocol", "fast", "--trees", config.trees.parent, "--cache", config.output / "vectors"]
    score += ["--output", config.scores]
    steps = {"parse the books": parse, "train two views": train, "score on other books": score}
    return {title: [str(word) for word in words] for title, words in steps.items()}
