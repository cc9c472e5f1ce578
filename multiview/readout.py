"""Fit a read-out, the linear map from the views of a model to one vector for cosines.

    python -m multiview.readout builtin runs/trees/mine --output runs/models/adapted
    python -m multiview.readout runs/models/mine runs/trees/mine --teacher mine.npy

In: a model folder or ``builtin``, and a tree cache by the model's parsers. Out: the model with a read-out
(:mod:`multiview.encoders.meaning`), which ``encode`` then uses. ``--teacher`` is a ``.npy`` file of another
encoder's vectors, one row for each sentence, which the read-out is fitted to reproduce. Without a teacher it
is fitted so that neighbouring sentences become similar; this adapts a model to a text in the time of encoding
it once. The result is measured on held-out documents. With a teacher the measures are the mean cosine with
its vectors and Spearman's correlation of the cosines of all pairs of sentences; without one, it is how often
the nearest of 400 sentences is a neighbour.
"""

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge
from tyro.conf import Positional, arg

from multiview.names.options import ModelOptions
from runtime.cli import Command, Count, Positive, Share, configuration
from runtime.errors import UserError

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""The strengths that ``auto`` tries."""


@configuration
class ReadoutConfig(ModelOptions):
    """The options of ``python -m multiview.readout``."""

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
    """Strength of the ridge, in units of the mean variance of the views' numbers; auto tries some on
    held-out text."""
    structure: Share | None = None
    """The model's default share of who did what to whom in the cosine; by default as it is."""
    output: Path | None = None
    """Folder of the model with the read-out; by default the model's own."""


def main(config: ReadoutConfig) -> None:
    """Fit a read-out, print its gain on held-out text, and store it."""
    from multiview.folder.card import readout_card
    from multiview.folder.files import model_folder, model_record
    from multiview.training.data import open_trees
    from multiview.training.fit import Target, best_readout, compare, read_text, store_readout
    from multiview.words.compact import pack_matrix, unpack

    folder = model_folder(config.model)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such model folder")
    encoder, trees = config.load(), open_trees(config.trees)
    target = Target(trees, config.teacher)
    max_dim = encoder.network.dim
    if target.vectors_NT is not None:
        max_dim = target.vectors_NT.shape[1]
    if config.dim > max_dim:
        raise UserError(f"--dim {config.dim}: {config.teacher or folder} has {max_dim} numbers a sentence")
    blocks = read_text(encoder, trees, target)
    strengths = STRENGTHS if config.strength == "auto" else (config.strength,)
    readout = best_readout(target, blocks[0], strengths, config.dim, trees.folder.name)
    if model_record(folder).storage == "compact":
        # The weights are rounded as they will be stored, so that the stored read-out is compared.
        readout.weight.copy_(unpack(pack_matrix("weight", readout.weight))["weight"])
    before, after = compare(encoder.readout, readout, target, blocks[-1])
    gains = after > before
    output = config.output or folder
    if gains or config.output is not None:
        scale = target.moments.scale(config.features, trees.folder.name)
        finding = (
            f"{target.measure} on documents held out: {before:.4f} before, {after:.4f} with this read-out"
        )
        card = readout_card(folder, output, command_of(config), [readout.origin, finding])
        store_readout(folder, output, readout, scale, card, config.structure)
        print(f"model      {output}: {readout.origin}, {target.fit_score(readout, blocks[-1]):.4f}")
    if not gains:
        advice = "" if config.output else f"; {folder} stays as it was, --output FOLDER writes the new one"
        print(f"no gain    on the documents that were held out{advice}")


def command_of(config: ReadoutConfig) -> str:
    """Return the command line of this configuration, which any machine with the same plugins takes."""
    words = [config.model, str(config.trees)]
    for option in dataclasses.fields(config):
        value = getattr(config, option.name)
        if option.name not in ("model", "trees", "device") and value != option.default:
            words += [f"--{option.name.replace('_', '-')}", str(value)]
    return f"python -m multiview.readout {shlex.join(words)}"


def written_folder(config: ReadoutConfig) -> Path:
    """Return the folder of the new model. Raises UserError if it holds anything but a model."""
    from multiview.folder.files import refuse_other_content
    from multiview.model_config import BUILTIN

    if config.output is None and config.model == BUILTIN:
        raise UserError(f"--output: needed for {BUILTIN}, which stays as it is")
    folder = config.output or Path(config.model)
    refuse_other_content(folder)
    return folder


cli = Command(
    ReadoutConfig,
    main,
    "multiview.readout",
    "Fit one vector made for cosine, from all views of a model.",
    folder_of=written_folder,
    kept_work="nothing was written",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
