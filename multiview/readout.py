"""Fit a read-out: one vector made for cosine, from all views of a model side by side.

    python -m multiview.readout builtin runs/trees/mine --output runs/models/adapted
    python -m multiview.readout runs/models/mine runs/trees/mine --teacher mine.npy

In: a model folder, or ``builtin``; a tree cache by the model's parsers. Out: the model with a read-out
(:mod:`multiview.encoders.meaning`), which ``encode`` then uses. With another encoder's vectors of the
sentences, ``.npy``, one row each, it is drawn to these; without, neighbours are drawn together, which adapts
a model to a text in seconds. What came of it is told on documents that were held out: the mean cosine with
the teacher's vectors, and Spearman's correlation of the cosines of all pairs of sentences; or how often the
nearest of 400 sentences is a neighbour.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge
from tyro.conf import Positional, arg

from multiview.encode import ModelOptions
from runtime.cli import Command, Count, Positive, Share, configuration
from runtime.errors import UserError
from runtime.files import atomic_path, check_file, file_record, read_record, write_record
from runtime.progress import progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from multiview.encoders.meaning import Moments, Readout, Scale
    from multiview.model import MultiViewEncoder
    from parsing.trees.cache import TreeCache

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Tried by ``auto``."""
BATCH = 2048
"""Sentences encoded and added up at a time."""
HELD_OUT = 4000
"""Sentences held out at most, in whole documents: half choose the strength, half are reported."""
LEAST = 20
"""Sentences of a block that is held out; where there is one alone it does both."""


@configuration
class ReadoutConfig(ModelOptions):
    """Options of ``python -m multiview.readout``."""

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """Model folder, or builtin."""
    trees: Annotated[Positional[Path], arg(metavar="TREES")]
    """Tree cache by the model's parsers."""
    teacher: Path | None = None
    """Another encoder's vectors: a .npy of one row per sentence of the trees; None: neighbours."""
    dim: Annotated[Count, Ge(2)] = 384
    """Numbers of the read-out, at most the teacher's or the views'."""
    features: Count = 2560
    """Numbers of the features for classifiers at most; those that the others tell best are left out."""
    strength: Positive | Literal["auto"] = "auto"
    """Of the ridge, in units of the mean variance of the views' numbers; auto tries some on held-out text."""
    structure: Share | None = None
    """The model's default share of who did what to whom in the cosine; by default as it is."""
    output: Path | None = None
    """Folder of the model with the read-out; by default the model's own."""


def main(config: ReadoutConfig) -> None:
    """Fit, report, store."""
    from multiview.folder.files import BUILTIN, model_folder, model_records
    from multiview.training.data import open_trees
    from multiview.words.compact import pack_matrix, unpack

    folder = model_folder(config.model)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such model folder")
    if config.output is None and str(config.model) == BUILTIN:
        raise UserError(f"--output: needed for {BUILTIN}, which stays as it is")
    encoder, cache = config.load(), open_trees(config.trees)
    if len(encoder.members) > 1:
        raise UserError(f"{folder}: holds several models; fit a read-out for one of them")
    target = Neighbours(cache) if config.teacher is None else Teacher(config.teacher, cache)
    limit = target.dim or encoder.members[0].network.dim
    if config.dim > limit:
        raise UserError(f"--dim {config.dim}: {config.teacher or folder} has {limit} numbers a sentence")
    moments, blocks = read_moments(encoder, cache, target)
    strengths = STRENGTHS if config.strength == "auto" else (config.strength,)
    readout = best_readout(target, moments, blocks[0], strengths, config.dim, cache.folder.name)
    if model_records(folder)[""].storage == "compact":  # then what will be stored is compared
        readout.weight = unpack(pack_matrix("weight", readout.weight))["weight"]
    gains = compare(encoder.readout, readout, target, blocks[-1])
    output = config.output or folder
    if gains or config.output is not None:
        scale = moments.scale(config.features, cache.folder.name)
        store_readout(folder, output, readout, scale, config.structure)
        print(f"model      {output}: {readout.origin}, {target.fit_score(readout, blocks[-1]):.4f}")
    if not gains:
        unchanged = f"; {folder} stays as it was, --output FOLDER writes the new one"
        print(f"no gain    on the documents that were held out{'' if config.output else unchanged}")


def written_folder(config: ReadoutConfig) -> Path | None:
    """Say where the model goes; None for ``builtin``, which is refused without ``--output``."""
    from multiview.folder.files import BUILTIN, refuse_other_content

    if config.output is None and config.model == BUILTIN:
        return None
    folder = config.output or Path(config.model)
    refuse_other_content(folder)
    return folder


@dataclass(frozen=True)
class Block:
    """Sentences of documents that are held out."""

    rows: NDArray[np.int64]
    """[H], their numbers in the cache."""
    views_HD: Tensor
    """The views side by side."""


def read_moments(
    encoder: MultiViewEncoder, cache: TreeCache, target: Teacher | Neighbours
) -> tuple[Moments, list[Block]]:
    """Encode a cache once: the sums that a fit needs, and the blocks that are held out of it.

    Raises:
        UserError: the cache has too few documents, or none with two sentences.
    """
    import numpy as np
    import torch

    from multiview.encoders.meaning import Moments
    from multiview.folder.reading import CHUNK_SENTENCES

    rows = held_out_rows(cache)
    moments, place_N, dim = Moments(), np.full(len(cache), -1), encoder.members[0].network.dim
    place_N[np.concatenate(rows)] = np.arange(sum(map(len, rows)))
    held_HD = torch.zeros(sum(map(len, rows)), dim)
    chunk_CD = np.zeros((CHUNK_SENTENCES, dim), np.float32)
    batches = encoder.reader.batches(None, encoder.requires, cache, BATCH)
    done = 0
    with torch.inference_mode(), progress(total=len(cache), description="encode") as bar:
        for places, batch in batches:
            views_BD = encoder.vectors(batch).cpu()
            is_held = place_N[places] >= 0
            held_HD[place_N[places[is_held]]] = views_BD[is_held]
            chunk_CD[places % CHUNK_SENTENCES] = views_BD
            done += len(places)
            bar.update(len(places))
            if done % CHUNK_SENTENCES == 0 or done == len(cache):  # whole: neighbours are together
                chunk = np.arange((done - 1) // CHUNK_SENTENCES * CHUNK_SENTENCES, done)
                fitted = chunk[place_N[chunk] < 0]
                target.add(moments, fitted, chunk_CD[fitted % CHUNK_SENTENCES])
    if not target.fitted:
        raise UserError(f"{cache.folder}: no two sentences of a document to fit to; give a text of documents")
    counts = " + ".join(f"{len(part):,}" for part in rows)
    print(f"sentences  {target.fitted:,} fitted, {counts} held out")
    views = held_HD.split([len(part) for part in rows])
    return moments, [Block(*block) for block in zip(rows, views, strict=True)]


def held_out_rows(cache: TreeCache) -> list[NDArray[np.int64]]:
    """Choose the sentences of one or two blocks of documents: one decides the strength, one is reported.

    Raises:
        UserError: the cache has too few documents to hold some out.
    """
    import numpy as np

    from multiview.training.data import Split

    spans = Split.of(np.asarray(cache.documents()), HELD_OUT, LEAST).validation
    halves = [half for half in (spans[::2], spans[1::2]) if half]
    if not halves:
        raise UserError(f"{cache.folder}: no documents to hold out; it needs some ten of like length")
    return [np.concatenate([np.arange(*span) for span in half]) for half in halves]


def best_readout(
    target: Teacher | Neighbours,
    moments: Moments,
    block: Block,
    strengths: Sequence[float],
    dim: int,
    text: str,
) -> Readout:
    """Return the read-out to ``dim`` numbers of the strength that does best on a block of this text."""
    best: tuple[float, Readout] | None = None
    for strength in strengths:
        origin = f"{target.name} over {target.fitted:,} sentences of {text}, strength {strength:g}"
        readout = moments.fit(strength, dim, origin, of_neighbours=isinstance(target, Neighbours))
        score = target.fit_score(readout, block)
        print(f"strength   {strength:g}: {target.fit_measure} {score:.4f}", flush=True)
        if best is None or score > best[0]:
            best = score, readout
    assert best is not None
    return best[1]


def compare(old: Readout | None, new: Readout, target: Teacher | Neighbours, block: Block) -> bool:
    """Print how a block's vectors do before and after, and whether the new ones do better."""
    before = block.views_HD if old is None else old.cpu()(block.views_HD)
    after = new(block.views_HD)
    scores = [target.score(vectors, block.rows) for vectors in (before, after)]
    for name, vectors, score in zip(("before", "after "), (before, after), scores, strict=True):
        print(f"{name}     {target.measure} {score:.4f} ({vectors.shape[1]} numbers)")
    return scores[1] > scores[0]


class Teacher:
    """Another encoder's vectors [sentences, T], to which a read-out is drawn; each counts at length 1."""

    fit_measure, measure = "cosine with the teacher", "rank correlation"

    def __init__(self, file: Path, cache: TreeCache) -> None:
        from multiview.training.data import open_teacher

        self.vectors_NT = open_teacher(file, cache)
        self.name, self.dim = file.name, self.vectors_NT.shape[1]
        self.fitted = 0
        """Sentences counted so far."""

    def add(self, moments: Moments, rows: NDArray[np.int64], x_BD: NDArray[np.float32]) -> None:
        """Count sentences, by their numbers, with their views' vectors."""
        self.fitted += len(rows)
        moments.add(x_BD, self._vectors(rows).numpy())

    def fit_score(self, readout: Readout, block: Block) -> float:
        """Give the mean cosine of meaning and teacher's vector, for a read-out that was just fitted."""
        assert readout.axes_TK is not None
        wanted_HK = self._vectors(block.rows) @ readout.axes_TK
        return float((readout(block.views_HD) * wanted_HK).sum(dim=1).mean())

    def score(self, vectors_BK: Tensor, rows: NDArray[np.int64]) -> float:
        """Give the rank correlation of all cosines of sentences with the teacher's."""
        from multiview.encoders.meaning import rank_agreement

        return rank_agreement(vectors_BK, self._vectors(rows))

    def _vectors(self, rows: NDArray[np.int64]) -> Tensor:
        import numpy as np
        import torch

        from multiview.encoders.meaning import unit

        return unit(torch.from_numpy(np.asarray(self.vectors_NT[rows], np.float32)))


class Neighbours:
    """The sentences before and after in a document, to which a read-out draws each sentence."""

    name = "neighbours"
    fit_measure = measure = "recall@1 of neighbours"
    dim = 0
    """A read-out may have as many numbers as the views have."""

    def __init__(self, cache: TreeCache) -> None:
        import numpy as np

        offsets = np.asarray(cache.documents())
        self.document_N = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        self.fitted = 0
        """Sentences counted so far; each counts once, however many neighbours it has."""

    def add(self, moments: Moments, rows: NDArray[np.int64], x_BD: NDArray[np.float32]) -> None:
        """Count sentences in ascending order, by their numbers, with their views' vectors."""
        import numpy as np

        document_B = self.document_N[rows]
        left = np.flatnonzero((np.diff(rows) == 1) & (document_B[1:] == document_B[:-1]))
        self.fitted += len(np.union1d(left, left + 1))
        moments.add(x_BD[left], x_BD[left + 1])
        moments.add(x_BD[left + 1], x_BD[left])

    def fit_score(self, readout: Readout, block: Block) -> float:
        """How often the meaning nearest to a sentence's is that of a neighbour."""
        return self.score(readout(block.views_HD), block.rows)

    def score(self, vectors_BK: Tensor, rows: NDArray[np.int64]) -> float:
        """How often the nearest of a block of sentences is a neighbour."""
        import numpy as np

        from multiview.training.objective import Positions, neighbour_recall

        positions = Positions(rows, self.document_N[rows], np.ones(len(rows), bool))
        return neighbour_recall(vectors_BK, positions)


def store_readout(
    source: Path, target: Path, readout: Readout, scale: Scale, structure: float | None = None
) -> None:
    """Write a model with another read-out in one step; everything else stays as it is stored, compact or not.

    Args:
        source: the model's folder.
        target: where it goes, which may be the same; the caller holds the lock.
        readout: what is new.
        scale: of its features.
        structure: λ where a caller gives none; None leaves it.

    Raises:
        UserError: the folder holds several models, whose vectors have no read-out, or is damaged.
    """
    from safetensors.torch import load_file, save_file

    from multiview.folder.files import WEIGHTS, copy_card, load_members, model_records
    from multiview.words.compact import pack_matrix
    from runtime.folders import current, replaced

    record = model_records(source).get("")
    if record is None:
        raise UserError(f"{source}: holds several models; fit a read-out for one of them")
    load_members(source)  # weights that do not fit are not copied
    fitted = {f"readout.{name}": value.cpu() for name, value in readout.state_dict().items()}
    fitted |= {f"scale.{name}": value.cpu() for name, value in scale.state_dict().items()}
    if record.storage == "compact":
        fitted |= pack_matrix("readout.weight", fitted["readout.weight"])
    with replaced(target) as new:
        folder = current(source)
        for name, file in record.files.items():
            check_file(folder / name, file.bytes, file.sha256)
            if name != WEIGHTS:
                shutil.copyfile(folder / name, new / name)
        stored = load_file(folder / WEIGHTS).items()
        others = {name: value for name, value in stored if not name.startswith(("readout.", "scale."))}
        with atomic_path(new / WEIGHTS) as temporary:
            save_file({**others, **fitted}, temporary)
        values = read_record(folder / "config.json") | {"readout": readout.record, "scale": scale.record}
        values["files"] = {**values["files"], WEIGHTS: file_record(new / WEIGHTS)}
        if structure is not None:
            values["structure"] = structure
        write_record(new / "config.json", values)
        copy_card(folder, new)


cli = Command(
    ReadoutConfig,
    main,
    "multiview.readout",
    "Fit one vector made for cosine, from all views of a model.",
    owns=written_folder,
    kept="nothing was written",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
