"""Broken files: made-up input for every reader, bit flips and cuts for every format with a checksum."""

from __future__ import annotations

import random
import shutil
from functools import partial
from pathlib import Path

from corpora.support.errors import UserError
from tools.hammer.campaign import Fault, Target
from tools.hammer.grammar import brackets, break_bytes, break_json, break_text, conllu
from tools.hammer.readers import CHECKSUMMED, READERS, Reader
from tools.hammer.world import World


def targets() -> list[Target]:
    """``fuzz.*`` and ``damage.*``."""
    return [
        *(Target(f"fuzz.{reader.name}", partial(_fuzz, reader)) for reader in READERS),
        *(Target(f"damage.{reader.name}", partial(_damage, reader)) for reader in CHECKSUMMED),
    ]


def _copy(reader: Reader, folder: Path, world: World) -> Path:
    """The reader's files in ``folder``, and the trees that models are tried on where they look for them."""
    base = folder / "base"
    shutil.copytree(world(reader.base.split("/")[0]).joinpath(*reader.base.split("/")[1:]), base)
    if reader.base.startswith("models"):
        (folder / "trees").symlink_to(world("cache"))
    return base


def _victim(reader: Reader, base: Path, rng: random.Random) -> Path:
    found = sorted(path for path in base.glob(reader.files) if path.is_file() and path.name != ".lock")
    if not found:
        raise RuntimeError(f"{reader.name}: no file like {reader.files}")
    return rng.choice(found)


def refused(error: UserError, folder: Path) -> dict[str, int]:
    """Count a refusal.

    Raises:
        Fault: it is not one line that names a file of ``folder``.
    """
    text = str(error)
    if "\n" in text or not text or len(text) > 2000:
        raise Fault(f"refused, but not in one short line: {text[:200]!r}")
    if str(folder) not in text:
        raise Fault(f"refused without naming a file: {text}")
    return {"refused": 1}


def _fuzz(reader: Reader, rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """Break a file by its grammar and read it."""
    base = _copy(reader, folder, world)
    victim = _victim(reader, base, rng)
    text = _made_up(reader, rng)
    if text is not None and rng.random() < 0.2:  # unbroken: must be read
        victim.write_text(text, encoding="utf-8")
        reader.read(base)
        return {"inputs": 1, "read": 1}
    if reader.form == "bytes":
        broken = break_bytes(rng, victim.read_bytes())
    else:
        whole = text or victim.read_text(encoding="utf-8", errors="replace")
        broken = break_json(rng, whole) if reader.form == "json" else break_text(rng, whole)
    victim.write_bytes(broken)
    given = _reading(reader, base, folder)
    return {"inputs": 1, **({"read": 1} if isinstance(given, str) else given)}


def _damage(reader: Reader, rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """Flip a bit or cut a file; reading must give what it gave before, or refuse."""
    base = _copy(reader, folder, world)
    before = reader.read(base)
    victim = _victim(reader, base, rng)
    whole = victim.read_bytes()
    broken = break_bytes(rng, whole)
    victim.write_bytes(broken)
    given = _reading(reader, base, folder)
    if isinstance(given, dict):
        return {"inputs": 1, **given}
    if given != before:
        places = [i for i, (a, b) in enumerate(zip(whole, broken, strict=False)) if a != b]
        where = f"byte {places[0]}" if places else "the end"
        raise Fault(f"read silently with another content: {victim.relative_to(base)}, from {where} on")
    return {"inputs": 1, "same": 1}


def _made_up(reader: Reader, rng: random.Random) -> str | None:
    """A fresh document of the treebank formats, by their grammars."""
    make = {"conllu": conllu, "brackets": brackets}.get(reader.name)
    return "".join(make(rng) for _ in range(rng.randint(1, 6))) if make else None


def _reading(reader: Reader, base: Path, folder: Path) -> str | dict[str, int]:
    """The digest of what was read, or the count of a refusal."""
    try:
        return reader.read(base)
    except UserError as error:
        return refused(error, folder)
