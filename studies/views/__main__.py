r"""Which pair of views learns the best sentence vectors (Simoulin & Crabbé 2021, Tables 1 to 3)?

    python -m studies.views --trees runs/trees/umbc --words both --vectors glove.840B.300d.txt
    python -m studies.views --trees runs/trees/mine-50k runs/trees/mine-150k --words fixed \
        --vectors w2v.txt --case backoff --dim 256 --systems seq,seq dep,const --rates 5e-4 1.5e-3 \
        --passes 5 --validation 2000

The first line is the tables in full, their rows beside ours. Systems: the six pairs of {seq, dep, const},
QuickThought's setting (seq,seq; dot score, one softmax, the sentence itself at score 0), their starts before
training (Table 3), the average of the words of dep,const, and of random ones. All have the preset's options
but for those given here; the report lists what differs from the paper's. Each rate is a row, and none is
chosen; of growing text give a cache of each size (``parsing.run --limit``). Every system is scored raw, as
the paper's were, and with each number at one scale over the training text.

``multiview.train`` and ``senteval_runner.run`` train and score; what is finished is not repeated.
Beside the report ``--output`` gets rows.csv: every score with its seed and the commit that made it.
"""

import sys
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import MinLen

from multiview.config import TRAIN, Case
from runtime.cli import CountOrNone, Positive, Seed, configuration
from studies.kit import command

PAIRS = tuple(",".join(pair) for pair in combinations_with_replacement(("seq", "dep", "const"), 2))
QUICKTHOUGHT = "QuickThought"
"""The name of a setting of seq,seq."""
Words = Literal["trained", "fixed", "both"]
Scale = Literal["none", "one"]
"""Numbers as they are, or each at one scale over the text of training (``?scale=``)."""


@configuration
class ViewsConfig:
    """Options of ``studies.views``; 0 is the preset's own value."""

    trees: Annotated[tuple[Path, ...], MinLen(1)]
    """Tree caches to train on, one size of text each."""
    preset: str = "paper"
    """Preset of multiview.train: paper, laptop, gpu, or a TOML file."""
    systems: Annotated[tuple[str, ...], MinLen(1)] = (*PAIRS, QUICKTHOUGHT)
    """Pairs of views, and QuickThought."""
    words: Annotated[tuple[Words, ...], MinLen(1)] = ("trained", "fixed")
    """Configurations of words; both is the paper's."""
    vectors: str = TRAIN
    """Fixed words: a file, or train (skip-grams of the corpus; then no vocabulary is expanded)."""
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


cli = command(ViewsConfig, "studies.views.run:compare", "studies.views", __doc__)


if __name__ == "__main__":
    sys.exit(cli())
