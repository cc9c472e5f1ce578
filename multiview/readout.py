"""Fit a read-out: one vector made for cosine, from all views of a model side by side.

    python -m multiview.readout builtin runs/trees/mine --output runs/models/adapted
    python -m multiview.readout runs/models/mine runs/trees/mine --teacher mine.npy

In: a model folder, or ``builtin``; a tree cache by the model's parsers. Out: the model with a read-out
(:mod:`multiview.encoders.readout`), which ``encode`` then uses. With another encoder's vectors of the
sentences, ``.npy``, one row each, it is drawn to these; without, neighbours are drawn together, which adapts
a model to a text in seconds. What came of it is told on documents that were held out: the mean cosine with
the teacher's vectors, and Spearman's correlation of the cosines of all pairs of sentences; or how often the
nearest of 400 sentences is a neighbour.
"""

from __future__ import annotations

import shutil
import sys
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

    from multiview.encoders.readout import Moments, Numbers, Readout
    from multiview.encoders.scale import Scale
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
    import numpy as np

    from multiview.folder.files import BUILTIN, model_folder, model_records
    from multiview.training.data import Split, open_teacher, open_trees
    from multiview.words.compact import pack_matrix, unpack

    folder = model_folder(config.model)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such model folder")
    if config.output is None and str(config.model) == BUILTIN:
        raise UserError(f"--output: needed for {BUILTIN}, which stays as it is")
    encoder, cache = config.load(), open_trees(config.trees)
    if len(encoder.members) > 1:
        raise UserError(f"{folder}: holds several models; fit a read-out for one of them")
    aim: Teacher | Neighbours = (
        Neighbours(cache) if config.teacher is None else Teacher(open_teacher(config.teacher, cache))
    )
    most = aim.most or encoder.members[0].network.dim
    if config.dim > most:
        raise UserError(f"--dim {config.dim}: {config.teacher or folder} has {most} numbers a sentence")
    spans = Split.of(np.asarray(cache.documents()), HELD_OUT, LEAST).validation
    parts = [part for part in (spans[::2], spans[1::2]) if part]
    held = [np.concatenate([np.arange(*span) for span in part]) for part in parts]
    if not held:
        raise UserError(f"{cache.folder}: no documents to hold out; it needs some ten of like length")
    moments, x_ND = read_moments(encoder, cache, aim, np.concatenate(held))
    if not aim.fitted:
        raise UserError(f"{cache.folder}: no two sentences of a document to fit to; give a text of documents")
    wide = x_ND.split([len(rows) for rows in held])
    print(f"sentences  {aim.fitted:,} fitted, {' + '.join(f'{len(rows):,}' for rows in held)} held out")
    origin = f"{config.teacher.name if config.teacher else 'neighbours'} over {aim.fitted:,}"
    tried: list[tuple[float, Readout]] = []
    for strength in STRENGTHS if config.strength == "auto" else (config.strength,):
        about = f"{origin} sentences of {cache.folder.name}, strength {strength:g}"
        readout = aim.fit(moments, strength, config.dim, about)
        tried.append((aim.reached(readout, wide[0], held[0]), readout))
        print(f"strength   {strength:g}: {aim.said} {tried[-1][0]:.4f}", flush=True)
    best = max(tried, key=lambda pair: pair[0])[1]
    if model_records(folder)[""].storage == "compact":  # then what will be stored is compared
        best.weight = unpack(pack_matrix("weight", best.weight))["weight"]
    before = wide[-1] if encoder.readout is None else encoder.readout.cpu()(wide[-1])
    figures = [aim.told(vectors, held[-1]) for vectors in (before, best(wide[-1]))]
    for name, vectors, figure in zip(("before", "after "), (before, best.weight.T), figures, strict=True):
        print(f"{name}     {aim.compared} {figure:.4f} ({vectors.shape[1]} numbers)")
    gains = figures[1] > figures[0]
    if gains or config.output is not None:
        output, scale = config.output or folder, moments.scale(config.features, cache.folder.name)
        store_readout(folder, output, best, scale, config.structure)
        print(f"model      {output}: {best.origin}, {aim.reached(best, wide[-1], held[-1]):.4f}")
    if not gains:
        kept = "" if config.output else f"; {folder} stays as it was, --output FOLDER writes the new one"
        print(f"no gain    on the documents that were held out{kept}")


def written_folder(config: ReadoutConfig) -> Path | None:
    """Where the model goes; None for ``builtin``, which is refused without ``--output``."""
    from multiview.folder.files import BUILTIN, refuse_other_content

    if config.output is None and config.model == BUILTIN:
        return None
    folder = config.output or Path(config.model)
    refuse_other_content(folder)
    return folder


def read_moments(
    encoder: MultiViewEncoder, cache: TreeCache, aim: Teacher | Neighbours, held_H: NDArray[np.int64]
) -> tuple[Moments, Tensor]:
    """Encode a cache once: what the fit needs of it, and the views' vectors [H, D] held out."""
    import numpy as np
    import torch

    from multiview.encoders.readout import Moments
    from multiview.folder.reading import CHUNK_SENTENCES

    moments, place_N, dim = Moments(), np.full(len(cache), -1), encoder.members[0].network.dim
    place_N[held_H] = np.arange(len(held_H))
    x_HD, x_CD = torch.zeros(len(held_H), dim), np.zeros((CHUNK_SENTENCES, dim), np.float32)
    batches = encoder.reader.batches(None, encoder.requires, cache, BATCH)
    shown, read = progress(total=len(cache), description="encode"), 0
    with torch.inference_mode(), shown as bar:
        for rows, batch in batches:
            x_BD, held = encoder.vectors(batch).cpu(), place_N[rows] >= 0
            x_HD[place_N[rows[held]]] = x_BD[held]
            x_CD[rows % CHUNK_SENTENCES] = x_BD
            read += len(rows)
            bar.update(len(rows))
            if read % CHUNK_SENTENCES == 0 or read == len(cache):  # whole: neighbours are together
                chunk = np.arange((read - 1) // CHUNK_SENTENCES * CHUNK_SENTENCES, read)
                kept = chunk[place_N[chunk] < 0]
                aim.add(moments, kept, x_CD[kept % CHUNK_SENTENCES])
    return moments, x_HD


class Teacher:
    """A read-out is drawn to another encoder's vectors [sentences, T], which count at length 1."""

    said, compared = "cosine with the teacher", "rank correlation"

    def __init__(self, vectors_NT: Numbers) -> None:
        self.vectors_NT, self.most = vectors_NT, vectors_NT.shape[1]
        self.fitted = 0
        """Sentences counted so far."""

    def add(self, moments: Moments, rows: NDArray[np.int64], x_BD: NDArray[np.float32]) -> None:
        """Count sentences, by their numbers, with their views' vectors."""
        self.fitted += len(rows)
        moments.add(x_BD, self._of(rows).numpy())

    def fit(self, moments: Moments, strength: float, dim: int, origin: str) -> Readout:
        """Ridge regression."""
        return moments.readout(strength, dim, origin)

    def reached(self, readout: Readout, x_BD: Tensor, rows: NDArray[np.int64]) -> float:
        """Mean cosine of the meaning and the teacher's vector, for a read-out that was just fitted."""
        assert readout.axes_TK is not None
        return float((readout(x_BD) * (self._of(rows) @ readout.axes_TK)).sum(dim=1).mean())

    def told(self, vectors_BK: Tensor, rows: NDArray[np.int64]) -> float:
        """Rank correlation of all cosines with the teacher's."""
        from multiview.encoders.readout import rank_agreement

        return rank_agreement(vectors_BK, self._of(rows))

    def _of(self, rows: NDArray[np.int64]) -> Tensor:
        import numpy as np
        import torch

        wanted_BT = torch.from_numpy(np.asarray(self.vectors_NT[rows], np.float32))
        return torch.nn.functional.normalize(wanted_BT, dim=1)


class Neighbours:
    """A read-out draws neighbours of a document together."""

    said = compared = "recall@1 of neighbours"
    most = 0
    """Numbers of what it is drawn to; 0: as many as the views have."""

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

    def fit(self, moments: Moments, strength: float, dim: int, origin: str) -> Readout:
        """Canonical directions of neighbours."""
        return moments.neighbours(strength, dim, origin)

    def reached(self, readout: Readout, x_BD: Tensor, rows: NDArray[np.int64]) -> float:
        """As :meth:`told`."""
        return self.told(readout(x_BD), rows)

    def told(self, vectors_BK: Tensor, rows: NDArray[np.int64]) -> float:
        """How often the nearest of a block of sentences is a neighbour."""
        import numpy as np

        from multiview.training.objective import Positions, neighbour_recall

        where = Positions(rows, self.document_N[rows], np.ones(len(rows), bool))
        return neighbour_recall(vectors_BK, where)


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
    own = {f"readout.{name}": value.cpu() for name, value in readout.state_dict().items()}
    own |= {f"scale.{name}": value.cpu() for name, value in scale.state_dict().items()}
    if record.storage == "compact":
        own |= pack_matrix("readout.weight", own["readout.weight"])
    with replaced(target) as new:
        folder = current(source)
        for name, written in record.files.items():
            check_file(folder / name, written.bytes, written.sha256)
            if name != WEIGHTS:
                shutil.copyfile(folder / name, new / name)
        stored = load_file(folder / WEIGHTS).items()
        kept = {n: v for n, v in stored if not n.startswith(("readout.", "scale."))}
        with atomic_path(new / WEIGHTS) as temporary:
            save_file({**kept, **own}, temporary)
        fits = {"readout": readout.record, "scale": scale.record}
        values = {**read_record(folder / "config.json"), **fits}
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
