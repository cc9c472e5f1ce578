"""Computes structure, vectors of who did what to whom, and concatenates it to the vectors of an encoder.

Legend of dimension suffixes: N sentences, B sentences of a batch, D size of an encoder's vector, S size of
structure, W width of the encoder of :func:`vectors_of_texts`, which is D, S or D + S.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from multiview.encoders.batch_encoder import BatchEncoder, check_finite, encoder_of_views
from multiview.encoders.meaning import normalize_rows
from multiview.folder.reading import TextSource, Tokens
from multiview.words.table import WordTable
from parsing.trees.batch import Batch
from runtime.device import torch_threads, with_torch_defaults
from runtime.errors import UserError
from runtime.process import loading

if TYPE_CHECKING:
    from multiview.structure.poles import Opposites

STRUCTURE_SIZES = (128, 256, 512, 1024)
"""The sizes that structure may have. A smaller one is made of the first numbers of the largest."""
STRUCTURE_BATCH = 512
"""The batch size."""


def check_share(structure: float) -> float:
    """Return λ, the share of structure in a cosine. Raises UserError if it is no number from 0 to 1."""
    if not isinstance(structure, Real) or isinstance(structure, bool) or not 0 <= structure <= 1:
        raise UserError(f"structure={structure!r:.40}: must be a share from 0 to 1")
    return float(structure)


def check_structure_size(size: object) -> int:
    """Return S, the size of structure. Raises UserError if it is none of :data:`STRUCTURE_SIZES`."""
    if not isinstance(size, Integral) or size not in STRUCTURE_SIZES:
        raise UserError(f"structure_size={size!r:.40}: must be one of {', '.join(map(str, STRUCTURE_SIZES))}")
    return int(size)


def join_with_structure(meaning_ND: Tensor, structure_NS: Tensor, share: float) -> Tensor:
    """Return √(1 − λ) times meaning and √λ times structure, concatenated to [N, D + S]; λ is ``share``.

    Both are scaled to length 1 first, so a cosine is (1 − λ) cos(meanings) + λ cos(structures).
    """
    meaning_ND = (1 - share) ** 0.5 * normalize_rows(meaning_ND)
    return torch.cat([meaning_ND, share**0.5 * normalize(structure_NS, dim=1)], dim=1)


@loading()
def encoder_of_structure(words: WordTable, size: int, opposites: Opposites | None = None) -> BatchEncoder:
    """Return the encoder of structure, whose vectors have ``size`` numbers."""
    from multiview.structure.binding import structure_of  # here, because the import compiles functions

    encode = functools.partial(structure_of, words=words, size=size, opposites=opposites)
    return BatchEncoder({"tokens", "dep"}, size, encode)


def joined_encoder(base: BatchEncoder, structure: BatchEncoder, share: float) -> BatchEncoder:
    """Return the encoder that concatenates structure to the vectors of ``base``; λ is ``share``."""

    def encode(batch: Batch) -> Tensor:
        return join_with_structure(base.encode(batch), structure.encode(batch), share)

    return BatchEncoder(base.requires | structure.requires, base.width + structure.width, encode)


@with_torch_defaults()
def vectors_of_texts(
    encoder: BatchEncoder, source: TextSource, texts: Sequence[str | Tokens]
) -> NDArray[np.float32]:
    """Return the vectors of texts, float32 [N, W]; the parsers of ``source`` parse them."""
    vectors_NW = torch.zeros(len(texts), encoder.width, dtype=torch.float32)
    # Parsing runs in one thread, because it has no large matrix products.
    with torch.inference_mode(), torch_threads(1):
        for row_B, batch in source.reader.batches(texts, encoder.requires, None, STRUCTURE_BATCH):
            vectors_BW = encoder.encode(batch)
            check_finite(vectors_BW, batch, row_B, source.name)
            vectors_NW[torch.from_numpy(row_B)] = vectors_BW.cpu()
    return vectors_NW.numpy()


def structure_vectors(
    source: TextSource, texts: Sequence[str | Tokens], opposites: Opposites | None = None
) -> NDArray[np.float32]:
    """Return the structure of texts, float32 [N, S] of length 1; zero for a text without content words.

    ``opposites`` are by default those of the package.
    """
    return vectors_of_texts(
        encoder_of_structure(source.words, source.structure_size, opposites), source, texts
    )


def meaning_and_structure(
    source: TextSource, texts: Sequence[str | Tokens]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the meanings [N, D] and structures [N, S] of texts, of length 1; the texts are parsed once."""
    network = source.model.network
    meaning_encoder = encoder_of_views(network, range(len(network.views)), network.readout, None)
    structure_encoder = encoder_of_structure(source.words, source.structure_size)
    joined = joined_encoder(meaning_encoder, structure_encoder, 0.5)
    meaning_ND, structure_NS = np.split(
        2**0.5 * vectors_of_texts(joined, source, texts), [meaning_encoder.width], axis=1
    )
    return meaning_ND, structure_NS


def append_structure(
    vectors_ND: Tensor, source: TextSource, texts: Sequence[str | Tokens], share: float
) -> Tensor:
    """Return vectors of texts with the structure of the texts concatenated, [N, D + S]; λ is ``share``."""
    structure_NS = torch.from_numpy(structure_vectors(source, texts)).to(vectors_ND)
    return join_with_structure(vectors_ND, structure_NS, share)
