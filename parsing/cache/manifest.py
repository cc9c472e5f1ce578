"""``manifest.json``: what a tree cache consists of. What it does not list does not exist."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Lt

from corpora.support.config import Count, config_from_json, config_to_json, configuration
from corpora.support.errors import UserError
from corpora.support.files import SEAL, json_digest, read_json, read_record, write_text
from parsing.cache.format import Inventories

NAME = "manifest.json"
FORMAT_VERSION = 2
SHARD_SENTENCES = 8192

Number = Annotated[int, Ge(0), Lt(1 << 48)]
"""A count in a manifest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardRow:
    """A shard's line in the manifest."""

    index: Number
    file: str
    """Path inside the cache's folder."""
    sha256: str
    """Of the file, checked before HDF5 opens it."""
    sentences: Number
    tokens: Number
    documents: Number
    """Documents that start in this shard."""
    flagged: Number
    """Sentences with any flag."""
    reasons: dict[str, Number]
    """How many sentences were flagged, by reason."""


@configuration
class Manifest:
    """Identity, inventories and the finished shards of one cache."""

    format_version: int = FORMAT_VERSION
    identity: dict[str, Any]
    """Corpus, parsers and options: everything that determines the content."""
    relations: tuple[str, ...]
    labels: tuple[str, ...]
    tags: tuple[str, ...]
    shard_sentences: Count = SHARD_SENTENCES
    complete: bool = False
    """The whole corpus is parsed."""
    shards: tuple[ShardRow, ...] = ()
    """Finished shards in order; while a run is under way there may be gaps."""

    @property
    def inventories(self) -> Inventories:
        """Names of the trees' ids."""
        return Inventories(relations=self.relations, labels=self.labels, tags=self.tags)

    def prefix(self) -> list[ShardRow]:
        """The rows from shard 0 up to the first gap."""
        gap = next((place for place, row in enumerate(self.shards) if row.index != place), None)
        return list(self.shards[:gap])

    def content_sha256(self) -> str:
        """Hex SHA-256 over the identity and the shards' files, in order."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode())
        for row in self.shards:
            digest.update(f"\n{row.index} {row.sha256}".encode())
        return digest.hexdigest()

    def write(self, folder: Path) -> None:
        """Replace the manifest in ``folder`` atomically."""
        head = config_to_json(self)
        rows = head.pop("shards")
        head[SEAL] = json_digest({**head, "shards": rows}, 64)
        # One line per shard: quick to write 5,000 times, and readable.
        lines = ",\n  ".join(json.dumps(row, sort_keys=True) for row in rows)
        text = json.dumps(head, indent=1, sort_keys=True, ensure_ascii=False).removesuffix("\n}")
        write_text(folder / NAME, f'{text},\n "shards": [\n  {lines}\n ]\n}}\n')

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of ``folder``.

        Raises:
            UserError: there is none, or it is damaged or of another format version.
        """
        path = Path(folder) / NAME
        if not path.exists():
            raise UserError(f"{folder}: not a tree cache (no {NAME}); make one with python -m parsing.run")
        value = read_json(path)
        version = value.get("format_version") if isinstance(value, dict) else None
        if version != FORMAT_VERSION:
            raise UserError(
                f"{path}: format version {version}, this program reads {FORMAT_VERSION}; parse again into "
                "another folder"
            )
        return config_from_json(cls, read_record(path), where=path)


def remedy(folder: Path) -> str:
    """The end of a message about a damaged or missing shard: the command that restores it."""
    try:  # parsing.run saves its command
        command = f"{read_json(folder / 'config.json')['command']} --output {shlex.quote(str(folder))}"
    except (UserError, KeyError, TypeError):
        return "make the cache again from where it came"
    return f"run: {command} (it makes only what is missing)"


def difference(stored: Any, wanted: Any, at: str = "") -> str | None:
    """The first value in which two identities differ, as ``corpus.sha256: 'a' is now 'b'``."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in sorted(set(stored) | set(wanted)):
            found = difference(stored.get(key), wanted.get(key), f"{at}.{key}" if at else key)
            if found:
                return found
        return None
    return None if stored == wanted else f"{at}: {stored!r} is now {wanted!r}"
