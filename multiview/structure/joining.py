"""Vectors of who did what to whom, and how they are put beside the vectors of an encoder.

Legend of dimension suffixes: n sentences, B sentences of a batch, D size of an encoder's vector, S of a
structure's.
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
"""How many numbers a structure vector may have; a smaller one is the beginning of the largest."""
BATCH = 512
"""Sentences whose structure is computed at a time."""


def check_share(structure: float) -> float:
    """Return λ, the share of structure in a cosine; a UserError if it is not a number from 0 to 1."""
    if not isinstance(structure, Real) or isinstance(structure, bool) or not 0 <= structure <= 1:
        raise UserError(f"structure={structure!r:.40}: a share from 0 to 1")
    return structure


def check_structure_size(size: object) -> int:
    """Return S, the numbers of a structure vector; a UserError if it is none of :data:`STRUCTURE_SIZES`."""
    if not isinstance(size, Integral) or size not in STRUCTURE_SIZES:
        raise UserError(f"structure_size={size!r:.40}: one of {', '.join(map(str, STRUCTURE_SIZES))}")
    return int(size)


def join_with_structure(meaning_ND: Tensor, structure_NS: Tensor, share: float) -> Tensor:
    """Put meaning and structure side by side, each at length 1: [n, D + S]; cosines mix as 1 − λ and λ."""
    meaning_ND = (1 - share) ** 0.5 * normalize_rows(meaning_ND)
    return torch.cat([meaning_ND, share**0.5 * normalize(structure_NS, dim=1)], dim=1)


@loading()
def encoder_of_structure(words: WordTable, size: int, opposites: Opposites | None = None) -> BatchEncoder:
    """Return the encoder of who did what to whom, whose vectors have ``size`` numbers."""
    from multiview.structure.binding import structure_of  # here: it compiles

    encode = functools.partial(structure_of, words=words, size=size, opposites=opposites)
    return BatchEncoder({"tokens", "dep"}, size, encode)


def joined_encoder(base: BatchEncoder, structure: BatchEncoder, share: float) -> BatchEncoder:
    """Return the encoder that puts structure beside the vectors of ``base``; λ is ``share``."""

    def encode(batch: Batch) -> Tensor:
        return join_with_structure(base.encode(batch), structure.encode(batch), share)

    return BatchEncoder(base.requires | structure.requires, base.width + structure.width, encode)


@with_torch_defaults()
def vectors_of_texts(
    encoder: BatchEncoder, source: TextSource, texts: Sequence[str | Tokens]
) -> NDArray[np.float32]:
    """Return the vectors of texts, which ``source`` parses: float32 [n, width]."""
    vectors_nS = torch.zeros(len(texts), encoder.width, dtype=torch.float32)
    # Parsing takes one thread: it has no large products.
    with torch.inference_mode(), torch_threads(1):
        for row_B, batch in source.reader.batches(texts, encoder.requires, None, BATCH):
            vectors_BS = encoder.encode(batch)
            check_finite(vectors_BS, batch, row_B, source.name)
            vectors_nS[torch.from_numpy(row_B)] = vectors_BS.cpu()
    return vectors_nS.numpy()


def structure_vectors(
    source: TextSource, texts: Sequence[str | Tokens], opposites: Opposites | None = None
) -> NDArray[np.float32]:
    """Encode who did what to whom, at length 1: float32 [n, S], zero without content words.

    ``opposites`` are those of the package by default.
    """
    return vectors_of_texts(
        encoder_of_structure(source.words, source.structure_size, opposites), source, texts
    )


def meaning_and_structure(
    source: TextSource, texts: Sequence[str | Tokens]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Encode meaning and structure of texts, parsed once: [n, D] and [n, S], at length 1."""
    network = source.model.network
    meaning_encoder = encoder_of_views(network, range(len(network.views)), network.readout, None)
    structure_encoder = encoder_of_structure(source.words, source.structure_size)
    joined = joined_encoder(meaning_encoder, structure_encoder, 0.5)
    meaning_nD, structure_nS = np.split(
        2**0.5 * vectors_of_texts(joined, source, texts), [meaning_encoder.width], axis=1
    )
    return meaning_nD, structure_nS


def put_beside(vectors_nD: Tensor, source: TextSource, texts: Sequence[str | Tokens], share: float) -> Tensor:
    """Put the structure of texts beside vectors of theirs, [n, D + S]; λ is ``share``."""
    structure_nS = torch.from_numpy(structure_vectors(source, texts)).to(vectors_nD)
    return join_with_structure(vectors_nD, structure_nS, share)
