"""The encoder as a step of a scikit-learn pipeline.

    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from multiview.sklearn import MultiViewTransformer

    classifier = make_pipeline(MultiViewTransformer("runs/models/mine"), LogisticRegression())
    classifier.fit(sentences, labels).predict(["A new one."])

The encoder is trained beforehand (``python -m multiview.train``) and stays as it is: ``fit`` only loads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from multiview.folder.reading import Tokens
from multiview.model import MultiViewEncoder


class MultiViewTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Sentences to vectors.

    Args:
        model: a model folder, ``builtin``, or a loaded encoder, which clones share.
        views: only these, by name; None takes all.
        normalize: scale every vector to length 1.
        batch_size: sentences encoded at a time.
        device: cpu, cuda, ...; None leaves a loaded encoder where it is and else takes a GPU if there is one.
    """

    def __init__(
        self,
        model: str | Path | MultiViewEncoder,
        *,
        views: Sequence[str] | None = None,
        normalize: bool = False,
        batch_size: int = 512,
        device: str | None = None,
    ) -> None:
        self.model, self.views, self.normalize = model, views, normalize
        self.batch_size, self.device = batch_size, device

    def fit(self, X: Iterable[str | Tokens], y: object = None) -> Self:
        """Load the model; neither sentences nor labels are looked at."""
        model = self.model
        if not isinstance(model, MultiViewEncoder):
            model = MultiViewEncoder.load(model, self.device)
        self.encoder_ = model
        return self

    def transform(self, X: Iterable[str | Tokens]) -> NDArray[np.float32]:
        """Vectors [n, D] of n sentences, each a string or tokens."""
        return self.encoder_.encode(
            X,
            batch_size=self.batch_size,
            show_progress_bar=False,
            normalize_embeddings=self.normalize,
            views=self.views,
            device=self.device,
        )

    @property
    def _n_features_out(self) -> int:
        """For the names of the dimensions."""
        return int(self.encoder_.encode([], views=self.views).shape[1])
