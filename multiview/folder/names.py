"""What names mean: of a model (a path, or ``builtin``, the encoder of the installation), and of its views."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpora.support.errors import UserError

BUILTIN = "builtin"
BUILTIN_FOLDER = Path(__file__).parent.parent / "builtin" / "dep-const-seq-v6"


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
        raise UserError(f"{BUILTIN}: this installation has no builtin encoder; give a model folder")
    return BUILTIN_FOLDER


def chosen_views(views: Sequence[Sequence[str]], wanted: Sequence[str] | None) -> list[list[int]]:
    """Positions of the wanted views in each part of a model.

    Args:
        views: names of the views of each part.
        wanted: views by name (``dep``) or by position and name (``0-dep``); None is all.

    Raises:
        UserError: an unknown view, or none at all.
    """
    if wanted is None:
        return [list(range(len(names))) for names in views]
    labels = [[{name, f"{place}-{name}"} for place, name in enumerate(names)] for names in views]
    known = {label for part in labels for both in part for label in both}
    unknown = [view for view in wanted if view not in known]
    if unknown or not wanted:
        what = f"view {unknown[0]!r}" if unknown else "views=[]"
        raise UserError(f"{what}: this model has {', '.join(sorted(known))}")
    return [[place for place, both in enumerate(part) if both & set(wanted)] for part in labels]
