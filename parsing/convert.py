"""Converts a checkpoint of supar into a model folder.

    python -m parsing.convert ptb.biaffine.dep.lstm.char runs/parsers/ptb --trust-pickle
    python -m parsing.convert biaffine-dep-en runs/parsers/ptb --trust-pickle

A checkpoint is a pickle, and to open a pickle runs any code that its author put in. This is the only module
that opens pickles, and only with --trust-pickle. The model folder holds numbers and JSON, is loaded without
supar, and parses as the checkpoint does in supar (weights are kept as float32).
"""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from runtime.cli import Command, configuration
from runtime.errors import UserError, printable


@configuration
class Convert:
    """Options of ``parsing.convert``."""

    checkpoint: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """The checkpoint file, or a name that supar's authors publish (downloaded)."""
    output: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """Model folder to write."""
    trust_pickle: tyro.conf.FlagCreatePairsOff[bool] = False
    """Open the checkpoint although that runs code in it; only for files you trust."""


def main(config: Convert) -> None:
    """Write the model folder of a checkpoint, with a model card; this runs any code in the checkpoint."""
    import torch

    from parsing.libraries.supar import checkpoint_path, from_state
    from parsing.networks.parser import CARD
    from runtime.files import sha256_file, write_text
    from runtime.folders import readme_text

    if not config.trust_pickle:
        raise UserError(
            f"{config.checkpoint}: opening a pickle runs code in it; add --trust-pickle if you trust it"
        )
    path = checkpoint_path(config.checkpoint)
    try:
        data = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # a damaged pickle raises errors of any type
        text = printable(f"{type(error).__name__}: {error}")
        raise UserError(f"{path}: not a checkpoint that can be opened ({text[:200]})") from None
    model = from_state(data, where=str(path))
    name = Path(config.checkpoint).name  # part of the parser's identity
    identity = model.save(config.output, name=name, version="converted", half=False)
    source = f"Converted from the checkpoint `{path.name}` (sha256 {sha256_file(path)})"
    licence = "its data, scores and licence are those of its authors."
    write_text(config.output / CARD, readme_text(name, f"{source}; {licence}"))
    print(f"{config.output}: sha256 {identity['sha256'][:16]}")


DESCRIPTION = "Convert a checkpoint of a supar dependency parser (biaffine-dep over words and characters)."
cli = Command(Convert, main, "parsing.convert", DESCRIPTION, folder_of=lambda config: config.output)


if __name__ == "__main__":
    sys.exit(cli())
