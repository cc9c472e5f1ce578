"""The three configurations under which SentEval scores are published, as one frozen dataclass.

``default`` is the configuration of comparable scores, ``fast`` the original toolkit's prototyping one,
``sklearn`` its scikit-learn path (``usepytorch=False``), nearest to "logistic regression, regularisation
chosen on the development set" of the multi-view paper.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from corpora.support.errors import UserError

TORCH_REGULARISERS = (1e-5, 1e-4, 1e-3, 1e-2)
SKLEARN_INVERSES = tuple(2.0**t for t in range(-2, 4))
SKLEARN_INVERSES_KFOLD = tuple(2.0**t for t in range(-1, 6))
BINARY_FOLD_SEED = 1111
"""InnerKFold draws its folds with this seed whatever the run's seed is."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Protocol:
    """How classifiers are trained, stopped and chosen."""

    name: str
    """Name under which the scores are reported."""
    backend: Literal["torch", "sklearn"] = "torch"
    """``torch``: Adam or RMSprop with early stopping; ``sklearn``: ``LogisticRegression``."""
    kfold: int = 10
    """Number of folds, outer and inner."""
    optim: Literal["adam", "rmsprop"] = "adam"
    """Optimiser, at torch's default learning rate (1e-3, 1e-2)."""
    batch_size: int = 64
    """Rows per step."""
    tenacity: int = 5
    """Rounds without improvement allowed over the whole fit."""
    epoch_size: int = 4
    """Epochs per round; development accuracy is measured after each round."""
    max_epoch: int = 200
    """No round begins once more than this many epochs are done."""
    nhid: int = 0
    """Width of the hidden sigmoid layer; 0 is logistic regression."""
    dropout: float = 0.0
    """Dropout before the sigmoid, with a hidden layer only."""

    def __post_init__(self) -> None:
        if self.kfold < 2:
            raise UserError(f"kfold must be at least 2, not {self.kfold}")
        if self.batch_size < 1 or self.epoch_size < 1 or self.nhid < 0 or self.tenacity < 0:
            raise UserError(
                "batch_size and epoch_size must be at least 1, nhid and tenacity at least 0, not "
                f"{self.batch_size}, {self.epoch_size}, {self.nhid}, {self.tenacity}"
            )
        if not 0 <= self.dropout < 1:
            raise UserError(f"dropout must be in [0, 1), not {self.dropout}")
        if self.backend == "sklearn" and self.nhid:
            raise UserError("the sklearn protocol has no hidden layer: use nhid 0, or default or fast")

    def snli(self) -> Protocol:
        """The variant SNLI is trained with: 16 single passes."""
        return dataclasses.replace(self, max_epoch=15, epoch_size=1)

    def without_hidden_layer(self) -> Protocol:
        """The variant of WordContent: always logistic regression."""
        return dataclasses.replace(self, nhid=0)


PROTOCOLS: Mapping[str, Protocol] = MappingProxyType(
    {
        "default": Protocol(name="default"),
        "fast": Protocol(name="fast", kfold=5, optim="rmsprop", batch_size=128, tenacity=3, epoch_size=2),
        "sklearn": Protocol(name="sklearn", backend="sklearn"),
    }
)


def get_protocol(protocol: str | Protocol, *, nhid: int | None = None) -> Protocol:
    """A configuration, given itself or by name; ``nhid`` replaces the width of the hidden layer.

    Raises:
        UserError: no such name.
    """
    if isinstance(protocol, str):
        if protocol not in PROTOCOLS:
            raise UserError(f"unknown protocol {protocol!r} (known: {', '.join(PROTOCOLS)})")
        protocol = PROTOCOLS[protocol]
    return protocol if nhid is None else dataclasses.replace(protocol, nhid=nhid)
