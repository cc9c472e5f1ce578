"""Turn a parsing library's own checkpoint into a model folder, once.

    python -m parsing.convert dep ptb.biaffine.dep.lstm.char runs/parsers/ptb --trust-pickle
    python -m parsing.convert dep biaffine-dep-en runs/parsers/ptb --trust-pickle

A library's checkpoint is a pickle: opening it runs whatever its author put in. This is the only place
that opens one, and only with --trust-pickle. The folder that comes out holds numbers and JSON, loads without
the library and parses as the checkpoint does in the library (weights are kept as float32).
"""

from __future__ import annotations

import sys
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


def unpickle(path: str) -> Any:
    """The content of a torch checkpoint; runs any code in it.

    Raises:
        UserError: not a torch checkpoint.
    """
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except (UserError, OSError):
        raise
    except Exception as error:
        # Damaged pickles raise anything: ten kinds of error in 6,000 damaged files.
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path}: not a checkpoint that can be opened ({text})") from None


def convert_dependency(config: Convert) -> None:
    """A supar biaffine parser to a model folder."""
    require_consent(config)
    from parsing.libraries.supar import checkpoint_path, from_state

    path = checkpoint_path(config.checkpoint)
    state = unpickle(path)
    if not isinstance(state, dict):
        raise UserError(f"{path}: holds a {type(state).__name__}, a supar checkpoint is a dictionary")
    model = from_state(state, where=path)
    content = {
        "kind": "dependency",
        "config": model.config_json(),
        "vocabulary": model.vocabulary_json(),
        "tensors": model.state_dict(),
    }
    _store(config, content, Path(path))


def convert_constituency(config: Convert) -> None:
    """A benepar parser with a character LSTM to a model folder."""
    require_consent(config)
    from parsing.libraries.benepar import from_checkpoint

    path = Path(config.checkpoint)
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    _store(config, {"kind": "benepar", **from_checkpoint(unpickle(str(path)), where=str(path))}, path)


def _store(config: Convert, content: dict[str, Any], checkpoint: Path) -> None:
    """Write the model folder with a card; ``content`` is kind, configuration, vocabulary and weights."""
    from corpora.support.files import sha256_file, write_text
    from parsing.networks.model_folder import CARD, save_model_folder

    name = config.name or Path(config.checkpoint).name
    identity = save_model_folder(config.output, **content, name=name, version="converted", half=False)
    card = (
        f"# {name}\n\nConverted from the checkpoint `{checkpoint.name}` (sha256 {sha256_file(checkpoint)}); "
        "its data, scores and licence are those of its authors.\n"
    )
    write_text(config.output / CARD, card)
    names = "relations" if content["kind"] == "dependency" else "labels"
    print(f"{config.output}: {len(content['vocabulary'][names])} {names}, sha256 {identity['sha256'][:16]}")


def require_consent(config: Convert) -> None:
    """Stop unless ``--trust-pickle`` is given.

    Raises:
        UserError: the option was not given.
    """
    if not config.trust_pickle:
        raise UserError(
            f"{config.checkpoint}: opening a pickle runs code in it; add --trust-pickle if you trust it"
        )


cli = Commands(
    {
        "const": Command(
            Convert,
            convert_constituency,
            "parsing.convert const",
            "a benepar parser with a character LSTM",
        ),
        "dep": Command(
            Convert,
            convert_dependency,
            "parsing.convert dep",
            "a supar dependency parser (biaffine-dep over words and characters)",
        ),
    },
    "parsing.convert",
    "Convert a checkpoint:",
)


if __name__ == "__main__":
    sys.exit(cli())
