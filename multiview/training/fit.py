"""Fits a read-out to a teacher's vectors or to neighbours, compares it on held-out sentences, and stores it.

:class:`Moments` fits a read-out in closed form, from sums over the sentences. With a teacher the read-out is
a ridge regression to the teacher's vectors, rotated to the principal components of the predictions, so that
the first k numbers of a meaning are the best k. These are components of the second moment and not of the
covariance, because cosines are taken about the origin. Without a teacher the read-out is the directions in
which neighbours agree most (canonical correlation, Hotelling 1936).

A model with a read-out leaves redundant numbers out of its features: those that the other numbers predict
best, removed one at a time, so that of two equal numbers one stays.

Legend of dimension suffixes: N sentences of a cache, H held out, B of a batch, C of a chunk, D numbers of all
views, T of the teacher, K of the read-out.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from scipy.linalg import eigh, lapack, solve
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn.functional import normalize

from multiview.encoders.meaning import Readout, Scale, deviations, normalize_rows
from multiview.folder.files import WEIGHTS, copy_card, load_model, model_record, write_card
from multiview.folder.reading import CHUNK_SENTENCES
from multiview.model import MultiViewEncoder
from multiview.training.data import Split, open_teacher
from multiview.training.objective import neighbour_recall
from multiview.training.targets import Positions
from multiview.words.compact import pack_matrix
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import atomic_path, read_record, write_record
from runtime.folders import current_folder, replace_folder
from runtime.progress import progress

Floats = NDArray[np.floating]
FIT_BATCH = 2048
"""Sentences encoded and added up at a time."""
HELD_OUT = 4000
"""The most sentences that are held out, in whole documents. One half chooses the strength of the ridge, the
scores on the other half are printed."""
MIN_SENTENCES = 20
"""The fewest sentences of a held-out range. If there is only one range, the strength is chosen on it and the
scores on it are printed, too."""
FITTED = -1
"""The block number of a sentence that the read-out is fitted to, and that is in no held-out block."""


class Moments:
    """Sums over any number of sentences, of D (D + T) numbers, from which read-outs and scales are computed.

    A sentence adds its vector x of all views and a vector y. Here y is the teacher's vector or, with
    ``of_neighbours``, the x of a neighbour; then T = D, and each pair of neighbours is added in both orders.
    """

    def __init__(self, *, of_neighbours: bool = False) -> None:
        self.of_neighbours = of_neighbours
        self.count = 0
        self.sums: list[NDArray[np.float64]] = []
        """Σ x [D], Σ y [T], XᵀX [D, D] and XᵀY [D, T]; empty before the first sentence."""

    def add(self, x_BD: Floats, y_BT: Floats) -> None:
        """Add sentences to the sums, by the views' vectors x and the teacher's or the neighbours' y."""
        x, y = x_BD.astype(np.float64), y_BT.astype(np.float64)
        terms = [x.sum(axis=0), y.sum(axis=0), x.T @ x, x.T @ y]
        self.sums = self.sums or [np.zeros_like(term) for term in terms]
        for total, term in zip(self.sums, terms, strict=True):
            total += term
        self.count += len(x)

    def _means(self) -> list[NDArray[np.float64]]:
        """Return the sums, each divided by the number of sentences."""
        return [total / max(self.count, 1) for total in self.sums]

    def scale(self, features: int, origin: str = "") -> Scale:
        """Return the scale of features: mean and deviation of each number of the views.

        All but ``features`` of the numbers are left out, by an infinite deviation. ``origin`` says which text
        the scale was measured on.
        """
        x_D, _, xx_DD, _ = self._means()
        square_D = torch.from_numpy(np.diag(xx_DD).copy())
        deviation_D = deviations(torch.from_numpy(x_D), square_D).numpy()
        divisor_D = np.where(deviation_D > 0, deviation_D, np.inf)  # makes a constant's correlations 0
        correlation_DD = (xx_DD - np.outer(x_D, x_D)) / np.outer(divisor_D, divisor_D)
        correlation_DD[np.diag_indices_from(correlation_DD)] += 1e-4
        excess = max(len(x_D) - features, 0)
        deviation_D[_most_predictable_first(correlation_DD)[:excess]] = np.inf
        return Scale(_tensor(x_D), _tensor(deviation_D), origin)

    def fit(self, strength: float, dim: int, origin: str = "") -> Readout:
        """Return the read-out x W + b of K = ``dim`` numbers, fitted with a ridge of ``strength`` s > 0.

        C is the covariance of x, C_xy that of x and y, and v the mean variance of the D numbers of x, so that
        s does not depend on their scale. With a teacher W = (C + s v I)⁻¹ C_xy and b = ȳ - x̄ W, both rotated
        to the first K principal components of the predictions. With neighbours the columns w of W solve C_xy
        w = ρ (C + s v I) w for the K largest ρ, times √ρ, and b = -x̄ W. Raises UserError if x is the same
        for all sentences, or if the teacher has fewer than ``dim`` numbers.
        """
        x_D, y_T, xx_DD, xy_DT = self._means()
        if dim > len(y_T):
            raise UserError(
                f"a read-out cannot have {dim} numbers: the teacher has {len(y_T)}; ask for fewer"
            )
        xx_DD -= np.outer(x_D, x_D)
        xy_DT -= np.outer(x_D, x_D if self.of_neighbours else y_T)
        variance = float(np.trace(xx_DD)) / len(x_D)
        if variance <= 1e-12 * float(np.mean(x_D**2)):  # zero, up to rounding
            raise UserError("no read-out can be fitted: the views give every sentence the same vector")
        xx_DD[np.diag_indices_from(xx_DD)] += strength * variance
        if self.of_neighbours:
            largest = [len(x_D) - dim, len(x_D) - 1]
            correlation_K, weight_DK = eigh((xy_DT + xy_DT.T) / 2, xx_DD, subset_by_index=largest)
            weight_KD = (weight_DK * np.sqrt(np.maximum(correlation_K, 0))).T[::-1]
            return Readout(_tensor(weight_KD), _tensor(-weight_KD @ x_D), origin)
        weight_DT = solve(xx_DD, xy_DT, assume_a="pos", overwrite_a=True)
        # The second moment of the predictions is Wᵀ C W + ȳ ȳᵀ, and C W = C_xy - s v W.
        second_TT = weight_DT.T @ (xy_DT - strength * variance * weight_DT) + np.outer(y_T, y_T)
        axes_TK = np.linalg.eigh((second_TT + second_TT.T) / 2)[1][:, ::-1][:, :dim]
        bias_K = (y_T - x_D @ weight_DT) @ axes_TK
        readout = Readout(_tensor((weight_DT @ axes_TK).T), _tensor(bias_K), origin)
        readout.axes_TK = _tensor(axes_TK)
        return readout


def _most_predictable_first(correlation_DD: Floats) -> NDArray[np.integer]:
    """Return the D numbers in the order of their removal: each is the one that those after it predict best.

    The diagonal of the inverse correlation is 1 / (1 - R²), where R² says how well the other numbers predict
    a number. To remove a number is a step of the Cholesky decomposition of the inverse, in which pivoting
    takes the largest diagonal element that is left.
    """
    return np.asarray(lapack.dpstrf(np.linalg.inv(correlation_DD))[1] - 1)


def _tensor(array: Floats) -> Tensor:
    """Return an array as a float32 tensor."""
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


@dataclass(frozen=True)
class Block:
    """Held-out sentences: their rows in the cache [H], and the vectors of all views side by side [H, D]."""

    rows: NDArray[np.int64]
    views_HD: Tensor


class Target:
    """What a read-out is fitted to: the teacher's vectors or, without a teacher, neighbouring sentences.

    ``teacher`` is a ``.npy`` file with a vector for each sentence of ``cache``.
    """

    def __init__(self, cache: TreeCache, teacher: Path | None) -> None:
        offsets = np.asarray(cache.documents())
        self.document_N = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        self.vectors_NT = None if teacher is None else open_teacher(teacher, cache)
        self.moments = Moments(of_neighbours=teacher is None)
        self.sentence_count = 0
        """The number of sentences added so far; each counts once, however many neighbours it has."""
        self.name = "neighbours" if teacher is None else teacher.name
        self.measure = "recall@1 of neighbours" if teacher is None else "rank correlation"
        self.fit_measure = self.measure if teacher is None else "cosine with the teacher"

    def add(self, rows: NDArray[np.int64], x_BD: NDArray[np.float32]) -> None:
        """Add sentences to the moments: their rows in the cache, ascending, and the vectors of their views.

        Without a teacher only a sentence whose neighbour is among them is added.
        """
        if self.vectors_NT is not None:
            self.sentence_count += len(rows)
            self.moments.add(x_BD, self._unit_teacher_vectors(rows).numpy())
            return
        document_B = self.document_N[rows]
        followed_by_neighbour = (np.diff(rows) == 1) & (document_B[1:] == document_B[:-1])
        left = np.flatnonzero(followed_by_neighbour)
        right = left + 1
        self.sentence_count += len(np.union1d(left, right))
        self.moments.add(x_BD[left], x_BD[right])
        self.moments.add(x_BD[right], x_BD[left])

    def fit_score(self, readout: Readout, block: Block) -> float:
        """Return how well a read-out fits a block: its mean cosine with the teacher's vectors or recall@1."""
        meaning_HK = readout(block.views_HD)
        if readout.axes_TK is None:
            return self.score(meaning_HK, block.rows)
        teacher_HK = self._unit_teacher_vectors(block.rows) @ readout.axes_TK
        return float((meaning_HK * teacher_HK).sum(dim=1).mean())

    def score(self, vectors_BK: Tensor, rows: NDArray[np.int64]) -> float:
        """Return how well vectors [B, K] of some sentences compare them.

        With a teacher that is Spearman's correlation of the cosines of all pairs with the teacher's cosines,
        without one recall@1: how often the nearest sentence is a neighbour. ``rows`` are those in the cache.
        """
        if self.vectors_NT is None:
            usable = np.ones(len(rows), bool)
            return neighbour_recall(vectors_BK, Positions(rows, self.document_N[rows], usable))
        pair_rows, pair_columns = torch.triu_indices(len(rows), len(rows), 1)
        cosines_of_pairs = []
        for vectors in (vectors_BK, self._unit_teacher_vectors(rows)):
            unit_vectors = normalize(vectors.double(), dim=1)
            cosines_of_pairs.append((unit_vectors @ unit_vectors.T)[pair_rows, pair_columns].numpy())
        return float(spearmanr(*cosines_of_pairs).statistic)

    def _unit_teacher_vectors(self, rows: NDArray[np.int64]) -> Tensor:
        """Return the teacher's vectors of some rows of the cache, [B, T], each at length 1."""
        assert self.vectors_NT is not None
        return normalize_rows(torch.from_numpy(np.asarray(self.vectors_NT[rows], np.float32)))


def read_text(encoder: MultiViewEncoder, cache: TreeCache, target: Target) -> list[Block]:
    """Encode all sentences of a cache, add most of them to ``target``, and return the held-out rest.

    The rest is two blocks, or one if the cache is small. Raises UserError if the cache has too few documents
    to hold some out, or no sentence to fit to.
    """
    spans = Split.of(np.asarray(cache.documents()), HELD_OUT, MIN_SENTENCES).validation
    if not spans:
        raise UserError(f"{cache.folder}: no documents to hold out; it needs some ten of like length")
    block_N = np.full(len(cache), FITTED)
    for number, span in enumerate(spans):
        block_N[slice(*span)] = number % 2
    held_out_parts: list[list[NDArray[np.float32]]] = [[] for _ in spans[:2]]
    batches = encoder.reader.batches(None, encoder.requires_of(), cache, FIT_BATCH)
    with torch.inference_mode(), progress(total=len(cache), description="encode") as bar:
        # A batch has sentences of similar length; neighbours come together again in the sorted chunk.
        for _, chunk in groupby(batches, lambda batch: batch[0][0] // CHUNK_SENTENCES):
            encoded = [(rows, encoder.vectors_of_batch(batch).cpu().numpy()) for rows, batch in chunk]
            rows, x_CD = map(np.concatenate, zip(*encoded, strict=True))
            order = np.argsort(rows)
            rows, x_CD = rows[order], x_CD[order]
            block_C = block_N[rows]
            target.add(rows[block_C == FITTED], x_CD[block_C == FITTED])
            for number, parts in enumerate(held_out_parts):
                parts.append(x_CD[block_C == number])
            bar.update(len(rows))
    if not target.sentence_count:
        raise UserError(f"{cache.folder}: no two sentences of a document to fit to; give a text of documents")
    blocks = [
        Block(np.flatnonzero(block_N == number), torch.from_numpy(np.concatenate(parts)))
        for number, parts in enumerate(held_out_parts)
    ]
    counts = " + ".join(f"{len(block.rows):,}" for block in blocks)
    print(f"sentences  {target.sentence_count:,} fitted, {counts} held out")
    return blocks


def best_readout(target: Target, block: Block, strengths: Sequence[float], dim: int, text: str) -> Readout:
    """Fit a read-out for each strength; return the one with the best score on a held-out block.

    Args:
        target: what to fit to, with all sentences added.
        block: held-out sentences.
        strengths: the strengths of the ridge to choose from.
        dim: K, the size of the read-out.
        text: the name of the text, for the record of what the read-out was fitted to.
    """
    readouts, scores = [], []
    for strength in strengths:
        origin = f"{target.name} over {target.sentence_count:,} sentences of {text}, strength {strength:g}"
        readouts.append(target.moments.fit(strength, dim, origin))
        scores.append(target.fit_score(readouts[-1], block))
        print(f"strength   {strength:g}: {target.fit_measure} {scores[-1]:.4f}", flush=True)
    return readouts[scores.index(max(scores))]


def compare(old: Readout | None, new: Readout, target: Target, block: Block) -> tuple[float, float]:
    """Print the scores of a block's vectors by the old and the new read-out, and return both scores.

    Without an old read-out, the old vectors are the views side by side.
    """
    before = block.views_HD if old is None else old.cpu()(block.views_HD)
    scores = []
    for name, vectors in (("before", before), ("after ", new(block.views_HD))):
        scores.append(target.score(vectors, block.rows))
        print(f"{name}     {target.measure} {scores[-1]:.4f} ({vectors.shape[1]} numbers)")
    return scores[0], scores[1]


def store_readout(
    source: Path, target: Path, readout: Readout, scale: Scale, card: str, structure: float | None = None
) -> None:
    """Write a copy of a model with another read-out and scale, in one step.

    All other weights stay as they are stored, compact or not.

    Args:
        source: the folder of the model.
        target: the folder to write, whose lock the caller holds; it may be ``source``.
        readout: the new read-out.
        scale: the new scale of features.
        card: the new README.md.
        structure: the new default λ; None keeps that of the model.

    Raises UserError if the folder is damaged.
    """
    record = model_record(source)
    load_model(source)  # only to check all files
    new_modules = nn.ModuleDict({"readout": readout, "scale": scale})
    new_tensors = {name: value.cpu() for name, value in new_modules.state_dict().items()}
    if record.storage == "compact":
        new_tensors |= pack_matrix("readout.weight", new_tensors["readout.weight"])
    with replace_folder(target) as new:
        folder = current_folder(source)
        for name in record.files:
            if name != WEIGHTS:
                shutil.copyfile(folder / name, new / name)
        tensors = load_file(folder / WEIGHTS)
        old_tensors = {name: tensors[name] for name in tensors if not name.startswith(("readout.", "scale."))}
        with atomic_path(new / WEIGHTS) as temporary:
            save_file({**old_tensors, **new_tensors}, temporary)
        values = read_record(folder / "config.json") | {
            "readout": {"dim": readout.dim, "origin": readout.origin},
            "scale": {"origin": scale.origin},
        }
        if structure is not None:
            values["structure"] = structure
        write_record(new / "config.json", values, record.files)
        copy_card(folder, new)  # for the seconds of its training; the card is replaced at once
        write_card(new, card)
