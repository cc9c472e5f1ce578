"""Turn a parsing library's own checkpoint into a model folder, once.

    python -m parsing.convert dep ptb.biaffine.dep.lstm.char runs/parsers/ptb --trust-pickle
    python -m parsing.convert dep biaffine-dep-en runs/parsers/ptb --trust-pickle

A library's checkpoint is a pickle: opening it runs whatever its author put in. This is the only place
that opens one, and only with --trust-pickle. The folder that comes out holds numbers and JSON, loads without
the library and parses as the checkpoint does in the library (weights are kept as float32).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import tyro

from corpora.support.cli import Command, Commands
from corpora.support.config import configuration
from corpora.support.errors import UserError


@configuration
class Convert:
    """Options of ``parsing.convert``."""

    checkpoint: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """The library's checkpoint file, or a name that its authors publish (downloaded)."""
    output: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FOLDER")]
    """Model folder to write."""
    trust_pickle: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Open the checkpoint although that runs code in it; only for files you trust."""
    name: str = ""
    """Name of the model, part of its identity; the checkpoint's name by default."""


def convert_dependency(config: Convert) -> None:
    """A supar biaffine parser to a model folder."""
    from parsing.libraries.supar import checkpoint_path, from_state

    path, state = unpickle(config, checkpoint_path)
    if not isinstance(state, dict):
        raise UserError(f"{path}: holds a {type(state).__name__}, a supar checkpoint is a dictionary")
    model = from_state(state, where=str(path))
    parts = {"config": model.config_json(), "vocabulary": model.vocabulary_json()}
    store(config, path, {"kind": "dependency", "tensors": model.state_dict(), **parts})


def convert_constituency(config: Convert) -> None:
    """A benepar parser with a character LSTM to a model folder."""
    from parsing.libraries.benepar import from_checkpoint

    path, data = unpickle(config)
    store(config, path, {"kind": "benepar", **from_checkpoint(data, where=str(path))})


def unpickle(config: Convert, find: Callable[[str], str] = str) -> tuple[Path, Any]:
    """The file of a torch checkpoint and its content; runs any code in it.

    Args:
        config: the options.
        find: the file of a name.

    Raises:
        UserError: ``--trust-pickle`` was not given, or not a torch checkpoint.
    """
    import torch

    if not config.trust_pickle:
        raise UserError(
            f"{config.checkpoint}: opening a pickle runs code in it; add --trust-pickle if you trust it"
        )
    path = Path(find(config.checkpoint))
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    try:
        return path, torch.load(path, map_location="cpu", weights_only=False)
    except OSError:
        raise
    except Exception as error:  # damaged pickles raise anything
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path}: not a checkpoint that can be opened ({text})") from None


def store(config: Convert, checkpoint: Path, content: dict[str, Any]) -> None:
    """Write the model folder with a card; ``content`` is kind, configuration, vocabulary and weights."""
    from corpora.support.files import sha256_file, write_text
    from parsing.networks.model_folder import CARD, save_model_folder

    name = config.name or Path(config.checkpoint).name
    identity = save_model_folder(config.output, name=name, version="converted", half=False, **content)
    card = (
        f"# {name}\n\nConverted from the checkpoint `{checkpoint.name}` (sha256 {sha256_file(checkpoint)}); "
        "its data, scores and licence are those of its authors.\n"
    )
    write_text(config.output / CARD, card)
    print(f"{config.output}: sha256 {identity['sha256'][:16]}")


ABOUT = {
    "const": (convert_constituency, "a benepar parser with a character LSTM"),
    "dep": (convert_dependency, "a supar dependency parser (biaffine-dep over words and characters)"),
}
cli = Commands(
    {kind: Command(Convert, main, f"parsing.convert {kind}", about) for kind, (main, about) in ABOUT.items()},
    "parsing.convert",
    "Convert a checkpoint:",
)


if __name__ == "__main__":
    sys.exit(cli())
