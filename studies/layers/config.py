"""Options of ``studies.layers``."""

from pathlib import Path
from typing import Annotated, Literal

import tyro
from annotated_types import Ge

from runtime.cli import Count, CountOrNone, configuration


@configuration
class LayersConfig:
    """Evaluate every layer and pooling of encoders on SentEval's tasks."""

    backbones: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="BACKBONE...")] = ()
    """Hugging Face names or folders (sentence-transformers folders too).
    Several are compared, each with the first; what is no transformer joins as one row."""
    encoders: tuple[str, ...] = ()
    """Encoders taken whole, one row each: any name that senteval_runner.run takes, or .npz files with the
    vectors of other programs (EMP: GloVe, Universal Sentence Encoder, InferSent)."""
    preset: Literal["paper"] | None = None
    """paper: EMP's Tables 1 and 2."""
    poolings: tuple[str, ...] = ()
    """Among cls, sep, mean, max; by default all that the backbone has."""
    concatenate: tuple[str, ...] = ("top,bottom",)
    """Layers evaluated side by side, e.g. -1,-12 -1,-6 -1,-2,-3."""
    tasks: str = "all"
    """Tasks and groups, separated by commas, as in senteval_runner.run; all leaves out SNLI."""
    data: Path | None = None
    """Folder with downstream/ and probing/; None is $MULTIVIEW_DATA, else data."""
    limit: Annotated[Count, Ge(40)] | None = None
    """Most rows per split, drawn at random; None takes all. The report says what a task loses."""
    protocol: Literal["default", "fast", "sklearn"] = "default"
    """How logistic regressions are trained and chosen (senteval_runner.run); fast may stop too early."""
    mlp: CountOrNone = 0
    """Hidden units of a second classifier, compared with logistic regression; 0 trains none."""
    output: Path = Path("runs/layers/report")
    """Folder for the report and the finished cells."""
    cache: Path = Path("runs/layers/vectors")
    """Folder of sentence vectors, one subfolder per backbone and choice of columns."""
