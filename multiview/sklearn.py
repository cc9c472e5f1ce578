"""The encoder as a step of a scikit-learn pipeline, trained beforehand: ``fit`` only loads it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from corpora.sentences import read_sentences
from multiview.folder.reading import TextSource, Tokens
from multiview.model import MultiViewEncoder
from multiview.structure.joining import check_share, put_beside
from runtime.errors import extra

with extra("sklearn", "scikit-learn"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted


class MultiViewTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns sentences into vectors for classifiers: the model's features, with or without a read-out.

    ``model`` is a folder, ``builtin``, or a loaded encoder, which clones share; ``views`` chooses some views
    by name; ``normalize`` scales every vector to length 1; ``structure`` is λ, the share of structure.
    """

    def __init__(
        self,
        model: str | Path | MultiViewEncoder,
        *,
        views: Sequence[str] | None = None,
        normalize: bool = False,
        structure: float = 0.0,
    ) -> None:
        self.model, self.views, self.normalize, self.structure = model, views, normalize, structure

    def fit(self, X: Iterable[str | Tokens], y: object = None) -> Self:
        """Load the model; sentences and labels have no say."""
        model = self.model
        self.encoder_ = model if isinstance(model, MultiViewEncoder) else MultiViewEncoder.load(model)
        return self

    def transform(self, X: Iterable[str | Tokens]) -> NDArray[np.float32]:
        """Return the vectors [n, D] of n sentences, each a string or tokens."""
        return self._vectors(X)

    def _vectors(self, X: Iterable[str | Tokens]) -> NDArray[np.float32]:
        check_is_fitted(self)
        texts = read_sentences(X, "transform")
        vectors = torch.from_numpy(self.encoder_.features(texts, views=self.views, show_progress_bar=False))
        if check_share(self.structure):
            vectors = put_beside(vectors, TextSource.of(self.encoder_), texts, self.structure)
        return (normalize(vectors, dim=1) if self.normalize else vectors).numpy()

    @property
    def _n_features_out(self) -> int:
        return int(self._vectors([]).shape[1])  # not transform, which asks for the names of its columns
