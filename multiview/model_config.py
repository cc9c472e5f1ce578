"""The options of a model's parts, as frozen dataclasses: its word tables, its encoders and its two losses.

:mod:`multiview.config` puts them together with the options of a whole training. A model folder records those
of its encoders. This module imports no torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from runtime.cli import Count, CountOrNone, Fraction, NotNegative, Positive, configuration

BUILTIN = "builtin"
"""The name of the encoder in the package."""
BUILTIN_FOLDER = Path(__file__).parent / "builtin" / "dep-const-seq-v8"
"""The folder of the encoder in the package."""
MAX_VIEWS = 32
"""The most views of a model, because each has its own encoder and each pair its own term of the loss."""


Case = Literal["exact", "backoff", "lower"]
Boundary = Literal["document", "none"]
Denominator = Literal["paper", "all", "quickthought"]
VectorKind = Literal["raw", "features", "meaning"]
"""The kinds of vectors: the views as they are, vectors for classifiers, and one for cosines."""
InitRule = Literal["xavier", "bag"]
Pooling = Literal["root", "mean", "max", "root+mean", "root,mean,max"]
"""How the states of a view's nodes become one vector: ``root`` is the state of the root, ``mean`` and ``max``
are taken over all states. ``+`` is a sum; vectors between commas are concatenated and divided by their
number."""


@configuration
class TableConfig:
    """Options of the word tables: which words have vectors of their own, and how these are trained."""

    size: Count = 30_000
    """Most frequent words to train."""
    buckets: CountOrNone = 2_000
    """Hash buckets of other words."""
    case: Case = "lower"
    """How to look up words not listed as written."""
    expand: CountOrNone = 0
    """Words of --vectors to add after training."""
    dim: Count = 256
    """Size E of vectors made here, or of those of --vectors builtin."""
    dropout: Fraction = 0.15
    """Share of words that a step reads as unknown."""
    rate: NotNegative = 5.0
    """Factor on the learning rate."""
    update: Literal["dense", "rows"] = "rows"
    """Adam on whole tables, or on a step's rows alone."""

    @property
    def min_count(self) -> int:
        """How often a word must occur to have a vector: twice, or once if there are no hash buckets."""
        return 2 if self.buckets else 1


@configuration
class EncoderConfig:
    """Options of the encoder that each view has."""

    dim: Count = 128
    """Hidden size D of each view."""
    init: InitRule = "bag"
    """xavier as in the paper, or bag: trees start as bags of words weighted by their rarity, views alike."""
    pooling: Pooling = "root"
    """How states of nodes become a sentence's vector."""
    engine: Literal["native", "dgl"] = "native"
    """Kernels of our own, or DGL."""
    relations: bool = False
    """Whether dep knows the role of each child."""


@configuration
class ObjectiveConfig:
    """Options of the contrast between new views: what it compares, and how."""

    boundary: Boundary = "document"
    """Whether neighbours must share a document."""
    denominator: Denominator = "all"
    """``paper``: a softmax for each positive, against what is outside the context. ``all``: one softmax over
    positives and negatives. ``quickthought``: as ``all``, and with the sentence itself at score 0."""
    score: Literal["bilinear", "dot", "cosine"] = "dot"
    """S = F W Fᵀ, S = F Fᵀ, or the cosine over 0.05."""
    direction: Literal["forward", "both"] = "both"
    """Anchors from a pair's first view, or from both."""
    same: NotNegative = 0.0
    """Weight of the same-sentence term."""
    teacher: Path | None = None
    """A sentence encoder's vectors to learn from: a .npy of one row per sentence of the trees."""


@configuration
class MeaningConfig:
    """Options of the loss by which a model goes on: the weights of its terms."""

    boundary: Boundary = "document"
    """Whether neighbours must share a document."""
    views: NotNegative = 1.0
    """Going on from a model: weight of the contrast between views."""
    meaning: NotNegative = 1.0
    """Going on from a model: weight of the contrast of meanings."""
    temperature: Positive | None = None
    """Going on from a model: divides cosines of meanings; None: 0.05 on a text, 0.1 on pairs alone."""
    keep: NotNegative | None = None
    """Going on from a model: weight of 1 - cosine of a sentence's meaning and its meaning by the start; None:
    20 on a text, 5 on pairs alone."""
