"""The model that an encoder holds in memory: written to a folder, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpora.support.errors import UserError
from corpora.support.files import read_json, write_json
from multiview.folder.files import (
    TIME,
    Member,
    member_names,
    member_record,
    read_model_record,
    save_member,
    save_members,
)


def save_encoder(
    members: Sequence[Member], target: Path, source: Path | None, *, normalize_parts: bool = False
) -> None:
    """Write networks as a model folder.

    Args:
        members: one makes a plain model folder, several a folder of models.
        target: the folder; a model in it is replaced.
        source: the folder they were loaded from; its cards and records of training are kept.
        normalize_parts: whether the vectors of several networks are scaled before they are joined.
    """
    names = [""] if len(members) == 1 else [str(number) for number in range(len(members))]
    if source is not None and len(members) > 1:
        names = member_names(source)
    for name, member in zip(names, members, strict=True):
        card, training = _records(source / name if source else None, member)
        if source is not None and (source / name / TIME).exists():
            write_json(target / name / TIME, read_json(source / name / TIME))
        save_member(target / name, member, card=card, training=training)
    if names != [""]:
        card = (source / "README.md").read_text(encoding="utf-8") if source else "# Several models\n"
        save_members(target, names, card=card, normalize_parts=normalize_parts)


def _records(source: Path | None, member: Member) -> tuple[str, dict[str, Any]]:
    """The card and the record of training of a model that was loaded; of an untrained one, that it is."""
    if source is None:
        views = ", ".join(member.network.views)
        return f"# Untrained model\n\nRandom weights; views {views}.\n", {}
    return (source / "README.md").read_text(encoding="utf-8"), member_record(source).training


def refuse_foreign(folder: Path) -> None:
    """Refuse to write among other files.

    Raises:
        UserError: the folder holds something other than a model.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        if not (folder / "config.json").is_file():
            raise UserError(f"{folder}: holds something other than a model; save to another folder")
        read_model_record(folder)


def describe(members: Sequence[Member], parsers: Mapping[str, str]) -> str:
    """Views, sizes, words and parsers, a line each.

    Args:
        members: the model's networks.
        parsers: name of the parser of each annotation.
    """
    networks = [member.network for member in members]
    views = [f"{view} {width}" for n in networks for view, width in zip(n.views, n.widths, strict=True)]
    tables = [member.network.words for member in members]
    words = [f"{len(table.vocabulary):,} {table.mode}, of size {table.dim}" for table in tables]
    named = ", ".join(f"{need} {name}" for need, name in sorted(parsers.items()))
    return (
        f"  views    {' + '.join(views)} = {sum(n.dim for n in networks)} dimensions\n"
        f"  words    {'; '.join(words)}\n"
        f"  parsers  {named or 'none on record'}"
    )
