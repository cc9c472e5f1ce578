"""Fit a read-out: one vector made for cosine, from all views of a model side by side.

    python -m multiview.readout runs/models/mine runs/trees/mine --teacher mine.npy
    python -m multiview.readout builtin runs/trees/mine --teacher mine.npy --output runs/models/read

In: a model folder, or ``builtin``; a tree cache by the model's parsers; another encoder's vectors of its
sentences, ``.npy``, one row each. Out: the model with a read-out (:mod:`multiview.encoders.readout`), which
``encode`` then uses, and its agreement with the teacher on documents that were held out: the mean cosine with
the teacher's vectors, and Spearman's correlation of the cosines of all pairs of sentences.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge
from tyro.conf import Positional

from corpora.support.cli import Command, Count, Positive, Share, configuration
from corpora.support.errors import UserError
from corpora.support.files import atomic_path, file_record, read_record, write_record
from corpora.support.progress import progress
from multiview.encode import ModelOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from multiview.encoders.readout import Moments, Numbers, Readout
    from multiview.model import MultiViewEncoder
    from parsing.trees.cache import TreeCache

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
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

    trees: Positional[Path]
    """Tree cache by the model's parsers."""
    teacher: Path
    """Another encoder's vectors: a .npy of one row per sentence of the trees."""
    dim: Annotated[Count, Ge(2)] = 384
    """Numbers of the read-out, at most the teacher's."""
    strength: Positive | Literal["auto"] = "auto"
    """Of the ridge, in units of the mean variance of the views' numbers; auto tries some on held-out text."""
    structure: Share | None = None
    """The model's default share of who did what to whom in the cosine; by default as it is."""
    output: Path | None = None
    """Folder of the model with the read-out; by default the model's own."""


def main(config: ReadoutConfig) -> None:
    """Fit, report, store."""
    import numpy as np
    import torch

    from multiview.encoders.readout import rank_agreement
    from multiview.folder.files import BUILTIN, load_members, model_folder
    from multiview.training.data import Split, open_teacher, open_trees

    folder = model_folder(config.model)
    if config.output is None and str(config.model) == BUILTIN:
        raise UserError(f"--output: needed for {BUILTIN}, which stays as it is")
    encoder, cache = config.load(), open_trees(config.trees)
    if len(encoder.members) > 1:
        raise UserError(f"{folder}: holds several models; fit a read-out for one of them")
    teacher_NT = open_teacher(config.teacher, cache)
    if config.dim > teacher_NT.shape[1]:
        raise UserError(f"--dim {config.dim}: {config.teacher} has {teacher_NT.shape[1]} numbers a sentence")
    spans = Split.of(np.asarray(cache.documents()), HELD_OUT, LEAST).validation
    parts = [part for part in (spans[::2], spans[1::2]) if part]
    held = [np.concatenate([np.arange(*span) for span in part]) for part in parts]
    if not held:
        raise UserError(f"{cache.folder}: no documents to hold out; it needs some ten of like length")
    moments, x_ND = read_moments(encoder, cache, teacher_NT, np.concatenate(held))
    wide = x_ND.split([len(rows) for rows in held])
    taught = [torch.from_numpy(np.asarray(teacher_NT[rows], np.float32)) for rows in held]
    print(f"sentences  {moments.count:,} fitted, {' + '.join(f'{len(rows):,}' for rows in held)} held out")
    origin = f"ridge to {config.teacher.name} over {moments.count:,} sentences of {cache.folder.name}"
    tried: list[tuple[float, Readout]] = []
    for strength in STRENGTHS if config.strength == "auto" else (config.strength,):
        readout = moments.readout(strength, config.dim, f"{origin}, strength {strength:g}")
        tried.append((mean_cosine(readout, wide[0], taught[0]), readout))
        print(f"strength   {strength:g}: cosine with the teacher {tried[-1][0]:.4f}", flush=True)
    best = max(tried, key=lambda pair: pair[0])[1]
    output = config.output or folder
    store_readout(folder, output, best, config.structure)
    stored = load_members(output)[0].network.readout  # as it was rounded
    assert stored is not None
    stored.axes_TK = best.axes_TK
    before, after = (rank_agreement(vectors, taught[-1]) for vectors in (wide[-1], stored(wide[-1])))
    cosine = mean_cosine(stored, wide[-1], taught[-1])
    print(f"before     rank correlation {before:.4f} ({x_ND.shape[1]} numbers)")
    print(f"after      rank correlation {after:.4f} ({stored.dim} numbers), cosine {cosine:.4f}")
    print(f"model      {output}: {stored.origin}")


def read_moments(
    encoder: MultiViewEncoder, cache: TreeCache, teacher_NT: Numbers, held_H: NDArray[np.int64]
) -> tuple[Moments, Tensor]:
    """Encode a cache once: what the regression needs of it, and the views' vectors [H, D] held out.

    Args:
        encoder: of one model.
        cache: trees by its parsers.
        teacher_NT: the teacher's vectors of all sentences, which count at length 1.
        held_H: sentences that are not fitted.
    """
    import numpy as np
    import torch
    from torch.nn.functional import normalize

    from multiview.encoders.readout import Moments

    moments, place_N = Moments(), np.full(len(cache), -1)
    place_N[held_H] = np.arange(len(held_H))
    x_HD = torch.zeros(len(held_H), encoder.members[0].network.dim)
    batches = encoder.reader.batches(None, encoder.requires, cache, BATCH)
    shown = progress(total=len(cache), description="encode")
    with torch.inference_mode(), shown as bar:
        for rows, batch in batches:
            x_BD, held = encoder.vectors(batch).cpu(), place_N[rows] >= 0
            x_HD[place_N[rows[held]]] = x_BD[held]
            y_BT = normalize(torch.from_numpy(np.asarray(teacher_NT[rows[~held]], np.float32)), dim=1)
            moments.add(x_BD[~held].numpy(), y_BT.numpy())
            bar.update(len(rows))
    return moments, x_HD


def mean_cosine(readout: Readout, x_ND: Tensor, teacher_NT: Tensor) -> float:
    """Of the meaning and the teacher's vector of each sentence, for a read-out that was just fitted."""
    from torch.nn.functional import normalize

    assert readout.axes_TK is not None
    return float((readout(x_ND) * (normalize(teacher_NT, dim=1) @ readout.axes_TK)).sum(dim=1).mean())


def store_readout(source: Path, target: Path, readout: Readout, structure: float | None = None) -> None:
    """Write a model with another read-out; everything else stays as it is stored, compact or not.

    Args:
        source: the model's folder.
        target: where the model goes; may be the same.
        readout: the read-out.
        structure: λ where a caller gives none; None leaves it.

    Raises:
        UserError: the folder holds several models, whose vectors have no read-out.
    """
    from safetensors.torch import load_file, save_file

    from multiview.folder.files import TIME, WEIGHTS, model_records, pack_matrix

    record = model_records(source).get("")
    if record is None:
        raise UserError(f"{source}: holds several models; fit a read-out for one of them")
    stored = {n: v for n, v in load_file(source / WEIGHTS).items() if not n.startswith("readout.")}
    weight, bias = readout.weight.cpu(), readout.bias.cpu()
    compact = record.storage == "compact"
    stored |= pack_matrix("readout.weight", weight) if compact else {"readout.weight": weight}
    values = {**read_record(source / "config.json"), "readout": readout.record}
    if structure is not None:
        values["structure"] = structure
    target.mkdir(parents=True, exist_ok=True)
    for name in {*record.files, "README.md", "modules.json", TIME} - {WEIGHTS}:
        if source != target and (source / name).is_file():
            shutil.copyfile(source / name, target / name)
    with atomic_path(target / "config.json") as last, atomic_path(target / WEIGHTS) as weights:
        save_file({**stored, "readout.bias": bias}, weights)
        values["files"] = {**values["files"], WEIGHTS: file_record(weights)}
        write_record(last, values)


cli = Command(
    ReadoutConfig,
    main,
    "multiview.readout",
    "Fit one vector made for cosine, from all views of a model.",
    kept="nothing was written",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
