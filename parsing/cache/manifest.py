"""``manifest.json``: what a tree cache consists of. What it does not list does not exist."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpora.support.config import Count, config_from_json, configuration
from corpora.support.errors import UserError
from corpora.support.files import json_digest, read_json, write_text
from parsing.cache.checksums import remedy
from parsing.cache.format import FORMAT_VERSION, SHARD_SENTENCES, Inventories, Number, ShardRow

NAME = "manifest.json"


@dataclass(kw_only=True)
class Manifest:
    """Identity, inventories and the finished shards of one cache."""

    identity: dict[str, Any]
    """Corpus, parsers and options: everything that determines the content."""
    inventories: Inventories
    shard_sentences: int = SHARD_SENTENCES
    complete: bool = False
    """The whole corpus is parsed."""
    rows: dict[int, ShardRow] = field(default_factory=dict)
    """Finished shards by index; while a run is under way there may be gaps."""

    def prefix(self) -> list[ShardRow]:
        """The rows from shard 0 up to the first gap."""
        rows: list[ShardRow] = []
        while len(rows) in self.rows:
            rows.append(self.rows[len(rows)])
        return rows

    def content_sha256(self) -> str:
        """Hex SHA-256 over the identity and the content hashes of the shards, in order."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode())
        for index in sorted(self.rows):
            digest.update(f"\n{index} {self.rows[index].sha256}".encode())
        return digest.hexdigest()

    def write(self, folder: Path) -> None:
        """Replace the manifest in ``folder`` atomically.

        Raises:
            UserError: the folder cannot be written.
        """
        rows = [dataclasses.asdict(self.rows[i]) for i in sorted(self.rows)]
        head = {
            "format_version": FORMAT_VERSION,
            "identity": self.identity,
            "relations": self.inventories.relations,
            "labels": self.inventories.labels,
            "tags": self.inventories.tags,
            "shard_sentences": self.shard_sentences,
            "complete": self.complete,
            "content_sha256": self.content_sha256() if self.complete else None,
            "sentences": sum(row.sentences for row in self.rows.values()),
            "tokens": sum(row.tokens for row in self.rows.values()),
        }
        head["manifest_sha256"] = json_digest({**head, "shards": rows}, 64)
        # One line per shard: quick to write 5,000 times, and readable.
        lines = [json.dumps(row, sort_keys=True) for row in rows]
        text = json.dumps(head, indent=1, sort_keys=True, ensure_ascii=False)
        text = text[:-2] + ',\n "shards": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"
        try:
            write_text(folder / NAME, text)
        except OSError as error:
            raise UserError(f"{folder / NAME}: cannot be written ({error.strerror})") from None

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
        stored = config_from_json(_Stored, value, where=path)
        rows = list(stored.shards)
        if [row.index for row in rows] != sorted({row.index for row in rows}):
            raise UserError(f"{path}: damaged manifest (its shards are not in order)")
        unsealed = {key: part for key, part in value.items() if key != "manifest_sha256"}
        if json_digest(unsealed, 64) != stored.manifest_sha256:
            raise UserError(f"{path}: damaged manifest (its SHA-256 is not its content's); {remedy(path)}")
        return cls(
            identity=stored.identity,
            inventories=Inventories(relations=stored.relations, labels=stored.labels, tags=stored.tags),
            shard_sentences=stored.shard_sentences,
            complete=stored.complete,
            rows={row.index: row for row in rows},
        )


@configuration
class _Stored:
    """The keys of ``manifest.json``."""

    format_version: int
    identity: dict[str, Any]
    relations: tuple[str, ...]
    labels: tuple[str, ...]
    tags: tuple[str, ...]
    shard_sentences: Count
    complete: bool
    content_sha256: str | None
    sentences: Number
    tokens: Number
    shards: tuple[ShardRow, ...]
    manifest_sha256: str


def difference(stored: Any, wanted: Any, at: str = "") -> str | None:
    """The first value in which two identities differ, as ``corpus.sha256: 'a' is now 'b'``."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in sorted(set(stored) | set(wanted)):
            found = difference(stored.get(key), wanted.get(key), f"{at}.{key}" if at else key)
            if found:
                return found
        return None
    return None if stored == wanted else f"{at}: {stored!r} is now {wanted!r}"
