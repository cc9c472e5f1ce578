"""Fit a read-out to another encoder's vectors or to neighbours, compare it on text held out, and store it.

Legend of dimension suffixes: N sentences of a cache, H held out, B of a batch, C of a chunk, D numbers of all
views, T of the teacher, K of the read-out.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import normalize

from multiview.encoders.meaning import Moments, Readout, Scale, unit
from multiview.folder.files import WEIGHTS, copy_card, load_members, model_records
from multiview.folder.reading import CHUNK_SENTENCES
from multiview.model import MultiViewEncoder
from multiview.training.data import Split, open_teacher
from multiview.training.objective import Positions, neighbour_recall
from multiview.words.compact import pack_matrix
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import atomic_path, check_file, file_record, read_record, write_record
from runtime.folders import current_folder, replace_folder
from runtime.progress import progress

BATCH = 2048
"""Sentences encoded and added up at a time."""
HELD_OUT = 4000
"""Sentences held out at most, in whole documents: half choose the strength, half are reported."""
LEAST = 20
"""Sentences of a block that is held out; where there is one alone it does both."""


@dataclass(frozen=True)
class Block:
    """Sentences of documents that are held out: their numbers in the cache [H], and their views [H, D]."""

    rows: NDArray[np.int64]
    views_HD: Tensor


class Target:
    """What a read-out draws each sentence to: a teacher's vector of it, or the sentences beside it."""

    def __init__(self, cache: TreeCache, teacher: Path | None) -> None:
        offsets = np.asarray(cache.documents())
        self.document_N = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        self.vectors_NT = None if teacher is None else open_teacher(teacher, cache)
        self.moments = Moments()
        self.fitted = 0
        """Sentences counted so far; each counts once, however many neighbours it has."""
        self.name = "neighbours" if teacher is None else teacher.name
        self.measure = "recall@1 of neighbours" if teacher is None else "rank correlation"
        self.fit_measure = self.measure if teacher is None else "cosine with the teacher"

    def add(self, rows: NDArray[np.int64], x_BD: NDArray[np.float32]) -> None:
        """Count sentences, by their numbers in ascending order, with their views' vectors."""
        if self.vectors_NT is not None:
            self.fitted += len(rows)
            self.moments.add(x_BD, self._wanted(rows).numpy())
            return
        document_B = self.document_N[rows]
        left = np.flatnonzero((np.diff(rows) == 1) & (document_B[1:] == document_B[:-1]))
        self.fitted += len(np.union1d(left, left + 1))
        self.moments.add(x_BD[left], x_BD[left + 1])
        self.moments.add(x_BD[left + 1], x_BD[left])

    def fit_score(self, readout: Readout, block: Block) -> float:
        """Give the mean cosine of meaning and teacher's vector, or how often the nearest is a neighbour."""
        meaning_HK = readout(block.views_HD)
        if readout.axes_TK is None:
            return self.score(meaning_HK, block.rows)
        return float((meaning_HK * (self._wanted(block.rows) @ readout.axes_TK)).sum(dim=1).mean())

    def score(self, vectors_BK: Tensor, rows: NDArray[np.int64]) -> float:
        """Give Spearman's correlation of cosines with the teacher's, or how often a neighbour is nearest."""
        if self.vectors_NT is None:
            usable = np.ones(len(rows), bool)
            return neighbour_recall(vectors_BK, Positions(rows, self.document_N[rows], usable))
        from scipy.stats import spearmanr

        upper = torch.triu_indices(len(rows), len(rows), 1)
        units = (normalize(vectors.double(), dim=1) for vectors in (vectors_BK, self._wanted(rows)))
        return float(spearmanr(*((one @ one.T)[upper[0], upper[1]].numpy() for one in units)).statistic)

    def _wanted(self, rows: NDArray[np.int64]) -> Tensor:
        """Return the teacher's vectors [B, T]; each counts at length 1."""
        assert self.vectors_NT is not None
        return unit(torch.from_numpy(np.asarray(self.vectors_NT[rows], np.float32)))


def read_text(encoder: MultiViewEncoder, cache: TreeCache, target: Target) -> list[Block]:
    """Encode a cache once: count what is fitted to, and return one or two blocks that are held out of it.

    A cache of too few documents to hold some out, or of none with two sentences, is a UserError.
    """
    spans = Split.of(np.asarray(cache.documents()), HELD_OUT, LEAST).validation
    halves = [
        np.concatenate([np.arange(*span) for span in half]) for half in (spans[::2], spans[1::2]) if half
    ]
    if not halves:
        raise UserError(f"{cache.folder}: no documents to hold out; it needs some ten of like length")
    is_held_N = np.zeros(len(cache), bool)
    is_held_N[np.concatenate(halves)] = True
    chunk_CD = np.empty((CHUNK_SENTENCES, encoder.members[0].network.dim), np.float32)
    held_out, done = [], 0
    batches = encoder.reader.batches(None, encoder.requires_of(), cache, BATCH)
    with torch.inference_mode(), progress(total=len(cache), description="encode") as bar:
        for places, batch in batches:
            chunk_CD[places % CHUNK_SENTENCES] = encoder.vectors(batch).cpu()
            done += len(places)
            bar.update(len(places))
            if done % CHUNK_SENTENCES == 0 or done == len(cache):  # whole: neighbours are together
                rows = np.arange((done - 1) // CHUNK_SENTENCES * CHUNK_SENTENCES, done)
                is_held, x_CD = is_held_N[rows], chunk_CD[: len(rows)]
                target.add(rows[~is_held], x_CD[~is_held])
                held_out.append(x_CD[is_held])
    if not target.fitted:
        raise UserError(f"{cache.folder}: no two sentences of a document to fit to; give a text of documents")
    counts = " + ".join(f"{len(rows):,}" for rows in halves)
    print(f"sentences  {target.fitted:,} fitted, {counts} held out")
    views, places = torch.from_numpy(np.concatenate(held_out)), np.cumsum(is_held_N) - 1
    return [Block(rows, views[places[rows]]) for rows in halves]


def best_readout(target: Target, block: Block, strengths: Sequence[float], dim: int, text: str) -> Readout:
    """Return the read-out to ``dim`` numbers of the strength that does best on a block of this text."""
    fitted: list[tuple[float, Readout]] = []
    for strength in strengths:
        origin = f"{target.name} over {target.fitted:,} sentences of {text}, strength {strength:g}"
        readout = target.moments.fit(strength, dim, origin, of_neighbours=target.vectors_NT is None)
        fitted.append((target.fit_score(readout, block), readout))
        print(f"strength   {strength:g}: {target.fit_measure} {fitted[-1][0]:.4f}", flush=True)
    return max(fitted, key=lambda scored: scored[0])[1]


def compare(old: Readout | None, new: Readout, target: Target, block: Block) -> bool:
    """Print how a block's vectors do before and after, and whether the new ones do better."""
    before = block.views_HD if old is None else old.cpu()(block.views_HD)
    scores = []
    for name, vectors in (("before", before), ("after ", new(block.views_HD))):
        scores.append(target.score(vectors, block.rows))
        print(f"{name}     {target.measure} {scores[-1]:.4f} ({vectors.shape[1]} numbers)")
    return scores[1] > scores[0]


def store_readout(
    source: Path, target: Path, readout: Readout, scale: Scale, structure: float | None = None
) -> None:
    """Write a model with another read-out in one step; everything else stays as it is stored, compact or not.

    ``target`` may be the model's own folder; the caller holds its lock. Without ``structure``, λ stays. A
    folder that is damaged is a UserError.
    """
    record = model_records(source)[""]
    load_members(source)  # weights that do not fit are not copied
    fitted = {f"readout.{name}": value.cpu() for name, value in readout.state_dict().items()}
    fitted |= {f"scale.{name}": value.cpu() for name, value in scale.state_dict().items()}
    if record.storage == "compact":
        fitted |= pack_matrix("readout.weight", fitted["readout.weight"])
    with replace_folder(target) as new:
        folder = current_folder(source)
        for name, file in record.files.items():
            check_file(folder / name, file.bytes, file.sha256)
            if name != WEIGHTS:
                shutil.copyfile(folder / name, new / name)
        stored = load_file(folder / WEIGHTS).items()
        others = {name: value for name, value in stored if not name.startswith(("readout.", "scale."))}
        with atomic_path(new / WEIGHTS) as temporary:
            save_file({**others, **fitted}, temporary)
        values = read_record(folder / "config.json") | {
            "readout": {"dim": readout.dim, "origin": readout.origin},
            "scale": {"origin": scale.origin},
        }
        values["files"] = {**values["files"], WEIGHTS: file_record(new / WEIGHTS)}
        if structure is not None:
            values["structure"] = structure
        write_record(new / "config.json", values)
        copy_card(folder, new)
