"""Options of ``studies.analogies``."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from runtime.cli import configuration


@configuration
class AnalogiesConfig:
    """Score models on analogies of words, phrases and sentences."""

    preset: Literal["paper"] | None = None
    """paper: the models of UNI's Table 4, as far as they are there."""
    models: Annotated[tuple[str, ...], Positional, arg(metavar="MODEL...")] = ()
    """Model folders or names, word-vector files, random:dep,const; A+B puts vectors side by side."""
    questions: str = "builtin"
    """builtin, the questions in the package, or a file of others (docs/papers/uni.md)."""
    output: Path = Path("runs/analogies")
    """Folder for the report and the finished cells."""
