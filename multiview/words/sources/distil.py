"""``--vectors distil:MODEL``: the corpus's words, encoded one by one by a sentence encoder.

The recipe is model2vec's (Tulkens & van Dongen 2024, https://github.com/MinishLab/model2vec): the encoder's
vector of each word by itself, PCA, and smooth inverse frequency weights. Three things differ. The words are
those of the corpus instead of the encoder's pieces. Their frequencies are counted, not guessed from ranks by
Zipf's law, and a is 1e-3 as in Arora et al. 2017. And before they are weighted, all vectors are multiplied by
one number that makes their mean square 1, the scale that word tables start from (``--table.init unit``).

Legend of dimension suffixes: W words, T size of the encoder's vectors, E size of word vectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from corpora.inputs import input_hash, list_files
from corpora.support.errors import UserError
from corpora.support.files import json_digest
from corpora.support.progress import progress
from multiview.pretrained import encoder_folder, whole_model
from multiview.words.vectors import Float, Source
from multiview.words.vocabulary import corpus_words, inverse_frequency, words_record
from parsing.networks.device import pick_device

if TYPE_CHECKING:
    from multiview.config import TrainConfig
    from parsing.cache.reader import TreeCache

CHUNK = 1024
"""Words between two movements of the progress bar."""
BATCH = 256
MODEL_FILES = (".safetensors", ".json", ".txt", ".model")
"""What of an encoder's folder decides its vectors."""


def distilled_from(model: str, config: TrainConfig, trees: TreeCache) -> Source:
    """Vectors of ``--table.dim`` numbers for the words that ``--vocabulary`` lists.

    Args:
        model: folder or name of a sentence-transformers model.
        config: of the training.
        trees: the corpus.

    Raises:
        UserError: no such model.
    """
    encoder = WordEncoder.named(model, f"distil:{model}")
    record = encoder.record(config, trees)
    return Source(
        encoder.spec,
        f"distil-{json_digest(record, 8)}",
        record,
        f"words of the corpus as `{model}` encodes them one by one ({encoder.about}), PCA to "
        f"{config.table.dim} dimensions, weights a / (a + p)",
        lambda: _distilled(encoder, config, trees),
    )


@dataclass(frozen=True)
class WordEncoder:
    """A sentence encoder that encodes words one by one."""

    name: str
    """Folder or name of a sentence-transformers model."""
    spec: str
    """What ``--vectors`` says."""
    folder: Path
    content: str
    """SHA-256 of the files that decide its vectors."""

    @classmethod
    def named(cls, name: str, spec: str) -> Self:
        """Look a model up, without loading it.

        Raises:
            UserError: no such model.
        """
        folder = encoder_folder(name)
        return cls(name, spec, folder, input_hash(folder, list_files(folder, MODEL_FILES)))

    @property
    def about(self) -> str:
        """Its hash and licence, for a model card."""
        licence = _licence(self.folder)
        stated = f"licence by its card: {licence}" if licence else "no licence on its card"
        return f"SHA-256 {self.content[:16]}; {stated}"

    def record(self, config: TrainConfig, trees: TreeCache) -> dict[str, object]:
        """What decides the vectors of the corpus's words."""
        return {
            "model": self.content,
            **words_record(trees, config.vocabulary),
            "dim": config.table.dim,
        }

    def encode(self, words: list[str], config: TrainConfig) -> Float:
        """Vectors float32 [W, T] of words.

        Raises:
            UserError: fewer numbers than are wanted, or one that is not finite.
        """
        dim = config.table.dim
        if len(words) < dim:
            raise UserError(
                f"--vectors {self.spec}: the corpus has {len(words)} words that --vocabulary takes, too few "
                f"for --table.dim {dim}"
            )
        model = whole_model(str(self.folder), str(pick_device(config.device)))
        width = model.get_embedding_dimension() or 0
        if width < dim:
            raise UserError(
                f"--table.dim {dim}: {self.name} has vectors of {width} numbers; give at most that"
            )
        parts = []
        with progress(total=len(words), unit="word", description=f"distil {self.folder.name}") as bar:
            for start in range(0, len(words), CHUNK):
                chunk = words[start : start + CHUNK]
                parts.append(model.encode(chunk, batch_size=BATCH, show_progress_bar=False))
                bar.update(len(chunk))
        encoded_WT: Float = np.concatenate(parts).astype(np.float32)
        if not np.isfinite(encoded_WT).all():
            row = int(np.flatnonzero(~np.isfinite(encoded_WT).all(axis=1))[0])
            raise UserError(f"--vectors {self.spec}: its vector of {words[row]!r} is not finite")
        return encoded_WT


def reduced(encoded_WT: Float, counts_W: NDArray[np.int64], dim: int) -> Float:
    """Vectors [W, E] of words: PCA, mean square 1, times the words' weights.

    Args:
        encoded_WT: float32 [W, T], a sentence encoder's vectors of the words.
        counts_W: int64 [W], how often each occurs in the corpus.
        dim: E, at most W and T.
    """
    centred_WT = encoded_WT.astype(np.float64)
    centred_WT -= centred_WT.mean(axis=0)
    projected_WE = centred_WT @ principal_axes(centred_WT, dim)
    projected_WE /= np.sqrt(np.mean(projected_WE**2))
    weight_W = inverse_frequency(counts_W, 1 + len(counts_W))[1:]
    result: Float = (projected_WE * weight_W[:, None]).astype(np.float32)
    return result


def principal_axes(vectors_WT: NDArray[np.floating], dim: int) -> NDArray[np.float64]:
    """The directions [T, E] in which vectors [W, T] differ most, as far as their mean is zero.

    Args:
        vectors_WT: any floating type.
        dim: E, at most W and T.
    """
    wide_WT = vectors_WT.astype(np.float64)
    # The eigenvectors of the covariance are the right singular vectors, at a fraction of the SVD's memory.
    _, axes_TT = np.linalg.eigh(wide_WT.T @ wide_WT)
    axes_TE = axes_TT[:, ::-1][:, :dim]
    # An axis may point either way; the largest of its numbers is to be positive.
    signed: NDArray[np.float64] = axes_TE * np.sign(axes_TE[np.abs(axes_TE).argmax(axis=0), np.arange(dim)])
    return signed


def _distilled(encoder: WordEncoder, config: TrainConfig, trees: TreeCache) -> Iterator[tuple[str, Float]]:
    words, counts_W = corpus_words(trees.type_counts(), config.vocabulary)
    encoded_WT = encoder.encode(words, config)
    yield from zip(words, reduced(encoded_WT, counts_W, config.table.dim), strict=True)


def _licence(folder: Path) -> str:
    """The licence that a model's card names; empty if it names none."""
    card = folder / "README.md"
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    found = re.match(r"---\n(?:.*\n)*?license:[ \t]*([\w.+-]+)", text)
    return found[1] if found else ""
