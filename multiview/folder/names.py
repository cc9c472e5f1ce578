"""Which folder a model's name means: a path, or ``builtin``, the encoder that is part of the installation."""

from __future__ import annotations

from pathlib import Path

from corpora.support.errors import UserError

BUILTIN = "builtin"
BUILTIN_FOLDER = Path(__file__).parent.parent / "builtin" / "dep-const-v1"


def model_folder(name: Path | str) -> Path:
    """The folder of a model; that a model is in it is checked where it is read.

    Args:
        name: a path, or ``builtin``; a folder of that name is ``./builtin``.

    Raises:
        UserError: ``builtin``, and the installation has none.
    """
    if str(name) != BUILTIN:
        return Path(name)
    if not (BUILTIN_FOLDER / "config.json").is_file():
        raise UserError(
            f"{BUILTIN}: this installation has no builtin encoder; give a model folder, which "
            "python -m multiview.train makes"
        )
    return BUILTIN_FOLDER
