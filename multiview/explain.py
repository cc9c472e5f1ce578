"""Explain the cosine of two sentences: print the subtrees that match best, drawn on both trees.

    python -m multiview.explain runs/models/builtin-laptop "A cat sat on the mat." "On a mat lay a cat."

The model is ``builtin`` or a folder, and must have the view dep or const. :mod:`multiview.inference.matches`
describes how matches are chosen.
"""

import sys
from typing import Annotated

from tyro.conf import Positional, arg

from multiview.names.options import ModelOptions
from runtime.cli import Command, Count, configuration


@configuration
class ExplainConfig(ModelOptions):
    """Options of ``python -m multiview.explain``."""

    a: Annotated[Positional[str], arg(metavar="SENTENCE")]
    """A sentence."""
    b: Annotated[Positional[str], arg(metavar="SENTENCE")]
    """Another sentence."""
    view: str = ""
    """Only this view; all by default."""
    top: Count = 5
    """Most matches for each view."""


def main(config: ExplainConfig) -> None:
    """Print the explanation."""
    print(config.load().explain(config.a, config.b, view=config.view or None, top=config.top))


cli = Command(
    ExplainConfig,
    main,
    "multiview.explain",
    "The subtrees of two sentences that match best, drawn on both trees.",
    kept_work="nothing was written",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
