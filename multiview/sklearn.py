"""A multi-view encoder as a step of a scikit-learn pipeline."""

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
from multiview.structure.joining import append_structure, check_share
from runtime.errors import extra

with extra("sklearn", "scikit-learn"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted


class MultiViewTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Transforms sentences into features, the vectors for classifiers; ``fit`` only loads a trained model.

        make_pipeline(MultiViewTransformer("builtin"), LogisticRegression()).fit(sentences, labels)

    Args:
        model: A model folder, ``builtin``, or a loaded encoder, which clones of this step share.
        views: The names of the views whose features are taken; None takes all.
        normalize: Whether every vector is scaled to length 1.
        structure: λ, the share of structure in a cosine of two vectors; 0 leaves structure out.
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
        """Load the model; sentences and labels are ignored."""
        model = self.model
        self.encoder_ = model if isinstance(model, MultiViewEncoder) else MultiViewEncoder.load(model)
        return self

    def transform(self, X: Iterable[str | Tokens]) -> NDArray[np.float32]:
        """Return the vectors, float32 [n, D], of n strings or token lists."""
        return self._vectors(X)

    def _vectors(self, X: Iterable[str | Tokens]) -> NDArray[np.float32]:
        check_is_fitted(self)
        texts = read_sentences(X, "transform")
        vectors = torch.from_numpy(self.encoder_.features(texts, views=self.views, show_progress_bar=False))
        if check_share(self.structure):
            vectors = append_structure(vectors, TextSource.of(self.encoder_), texts, self.structure)
        return (normalize(vectors, dim=1) if self.normalize else vectors).numpy()

    @property
    def _n_features_out(self) -> int:
        # Not by transform, because scikit-learn wraps it in a function that reads this number.
        return int(self._vectors([]).shape[1])
