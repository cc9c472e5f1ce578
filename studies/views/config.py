"""Options of ``studies.views``."""

from itertools import combinations_with_replacement
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import MinLen

from multiview.config import TRAIN
from multiview.model_config import Case
from runtime.cli import CountOrNone, Positive, Seed, configuration

PAIRS = tuple(",".join(pair) for pair in combinations_with_replacement(("seq", "dep", "const"), 2))
QUICKTHOUGHT = "QuickThought"
"""The name of seq,seq with the score and loss of QuickThought."""
Words = Literal["trained", "fixed", "both"]
Scale = Literal["none", "one"]
"""Raw numbers, or each number brought to one scale over the training text (``?scale=``)."""


@configuration
class ViewsConfig:
    """Options of ``studies.views``; 0 is the preset's own value."""

    trees: Annotated[tuple[Path, ...], MinLen(1)]
    """Tree caches to train on, one size of text each."""
    preset: str = "paper"
    """Preset of multiview.train: paper, laptop, gpu, or a TOML file."""
    systems: Annotated[tuple[str, ...], MinLen(1)] = (*PAIRS, QUICKTHOUGHT)
    """Pairs of views, and QuickThought. All are compared with dep,const or, without it, with the first."""
    beside: Literal["words", "nothing"] = "nothing"
    """Whether the mean of words is one more view; by default not, since it would hide what a view does."""
    words: Annotated[tuple[Words, ...], MinLen(1)] = ("trained", "fixed")
    """Configurations of words; both is the paper's."""
    vectors: str = TRAIN
    """Fixed words: a file, or builtin or train (skip-grams of the corpus), which expand no vocabulary."""
    case: Case | None = None
    """How to look up words not listed as written; None is the preset's."""
    passes: CountOrNone = 0
    """Most passes over the text."""
    validation: CountOrNone = 0
    """Held-out sentences: the weights of least loss on them are kept, and a training stops that was no better
    over a fifth of its steps."""
    rates: tuple[Positive, ...] = ()
    """Learning rates, each a row; none is the preset's."""
    dim: CountOrNone = 0
    """Size of a view's vector."""
    word_dim: CountOrNone = 0
    """Size of word vectors made here."""
    seeds: Annotated[tuple[Seed, ...], MinLen(1)] = (0, 1, 2)
    """Seeds of weights, order and word vectors."""
    scales: Annotated[tuple[Scale, ...], MinLen(1)] = ("none", "one")
    """Numbers as they are, or each at one scale over the training text."""
    controls: bool = True
    """Score starts, the average of words and random words too."""
    tasks: str = "mv"
    """Tasks and groups, separated by commas, as in senteval_runner.run."""
    protocol: Literal["default", "fast", "sklearn"] = "default"
    """How the classifiers of senteval_runner.run are trained and chosen."""
    data: Path | None = None
    """SentEval's folder; None is $MULTIVIEW_DATA, else data."""
    output: Path = Path("runs/views")
    """Folder for models, scores and the report."""
    dry_run: bool = False
    """Print what would be trained and scored, and what one training takes; write nothing."""
