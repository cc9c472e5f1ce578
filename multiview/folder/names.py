"""What names mean: of a model (a path, or ``builtin``, the encoder of the installation), and of its views."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from corpora.support.errors import UserError, did_you_mean

BUILTIN = "builtin"
MISSPELT = 0.85
"""How close to ``builtin`` a name is that means nothing else; ``bertin`` has 0.62."""
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


def near_model(path: Path) -> str:
    """``did you mean builtin? `` where a path leads nowhere and is close to that, or to one beside it."""
    if path.exists():
        return ""
    beside = sorted(one.name for one in path.parent.iterdir()) if path.parent.is_dir() else []
    return did_you_mean(path.name, [*beside, BUILTIN] if str(path) == path.name else beside)


def refuse_misspelt(name: str) -> None:
    """Refuse a name that can only be meant as ``builtin``, before it is looked for on the Hugging Face hub.

    Raises:
        UserError: it is one, and nothing here has it.
    """
    near = did_you_mean(name, [BUILTIN], alike=MISSPELT)
    if near and not Path(name).exists() and name != BUILTIN:
        raise UserError(f"model {name!r}: no such file or folder; {near.rstrip()}")


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
