"""Trees of evaluation sentences, parsed once and shared by models, tasks and runs.

    runs/trees/senteval-<parsers>/<sentences>/     one tree cache per run that met new sentences

A tree encoder needs the parses of its own parsers. The sentences of the requested tasks that no cache here
holds yet are parsed into a new one; a run that is killed keeps its finished shards, because what counts is
which sentences are there, not which run wrote them. All fitting caches are read as one.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.support.errors import UserError
from parsing.cache.format import ShardRow
from senteval_runner.protocol.features import Float

if TYPE_CHECKING:
    from multiview.folder.reading import Reader
    from parsing.cache.reader import TreeCache
    from parsing.pipeline.workers import ParserFactories

Tokens = tuple[str, ...]
DEFAULT_FOLDER = Path("runs/trees")
# A killed run loses the shards under way: 4,096 sentences are some seconds of one core.
SHARD_SENTENCES = 4096
# Starting a worker costs as much as parsing so many sentences here.
WORTH_WORKERS = 2048


@dataclass(kw_only=True)
class EvaluationTrees:
    """The trees of some tasks' sentences."""

    folder: Path
    """Where tree caches lie: ``senteval`` of ``parsing.run``, and ``senteval-<parsers>`` written here."""
    data: Path
    """SentEval's data folder."""
    tasks: Sequence[str]
    """Whose sentences are parsed when they are missing."""
    workers: int | None = None
    """Parser processes; None is one per core."""

    def cache(self, reader: Reader, needs: set[str]) -> TreeCache | None:
        """Trees of the tasks' sentences by a model's own parsers; what is missing is parsed now.

        Args:
            reader: the model's, which knows its parsers.
            needs: ``dep``, ``const`` or both.

        Returns:
            The caches as one, or None when there is no sentence.

        Raises:
            UserError: the parsers are not those the model was trained with, or the folder cannot be written.
        """
        identities = {need: reader.identities.get(need) or reader.parser(need).identity for need in needs}
        name = f"senteval-{_key(identities)}"
        with _locked(self.folder / name):
            found = find_caches(self.folder, identities)
            missing = _missing(self._sentences(), found)
            if missing:
                self._parse(missing, self.folder / name / _digest(missing), reader, needs)
                found = find_caches(self.folder, identities)
        return found

    def _sentences(self) -> list[Tokens]:
        """Distinct sentences of the tasks that can be read, as encoders get them (an empty one is ".")."""
        from corpora.senteval.files import read_task

        distinct: dict[Tokens, None] = {}
        for name in self.tasks:
            with contextlib.suppress(UserError):  # the evaluation itself says what is wrong with a task
                for part in read_task(name, self.data).splits.values():
                    distinct.update((tuple(tokens) or (".",), None) for tokens in part.sentences())
        return list(distinct)

    def _parse(self, sentences: list[Tokens], output: Path, reader: Reader, needs: set[str]) -> None:
        from corpora.documents import Sentence
        from corpora.stream import StreamCorpus, in_pieces
        from parsing.pipeline.driver import run_corpus
        from parsing.pipeline.local import LocalPool
        from parsing.pipeline.serial import SerialPool

        corpus = StreamCorpus(
            "senteval",
            lambda counts: in_pieces("senteval", map(Sentence, sentences)),
            about={"reader": "senteval-tasks-1", "format": "lines", "tokenizer": "space"},
            hash_input=lambda: _digest(sentences, 64),
        )
        small = len(sentences) < WORTH_WORKERS
        summary = run_corpus(
            corpus,
            output,
            _loaded(reader, needs) if small else _to_load(reader, needs),
            workers=self.workers,
            shard_sentences=SHARD_SENTENCES,
            expected=lambda: len(sentences),
            pool=SerialPool if small else LocalPool,
        )
        print(f"parsed {summary.parsed_now:,} sentences in {summary.seconds:.1f} s into {output}")


def find_caches(folder: Path, identities: dict[str, Any]) -> TreeCache | None:
    """Every cache of evaluation sentences below ``folder`` by these parsers, read as one.

    Args:
        folder: usually ``runs/trees``.
        identities: parser identity per annotation (``dep``, ``const``); a cache may hold more.

    Returns:
        None when there is none.
    """
    from multiview.folder.files import KINDS
    from parsing.cache.manifest import Manifest
    from parsing.cache.reader import TreeCache

    rows: dict[int, ShardRow] = {}
    first: Manifest | None = None
    for path in sorted([*folder.glob("senteval*/manifest.json"), *folder.glob("senteval-*/*/manifest.json")]):
        manifest = Manifest.read(path.parent)
        if any(manifest.identity.get(KINDS[need]) != dict(who) for need, who in identities.items()):
            continue
        first = first or manifest
        for row in manifest.rows.values():
            place = str((path.parent / row.file).relative_to(folder))
            rows[len(rows)] = _PlacedRow(**{**asdict(row), "index": len(rows), "place": place})
    if first is None or not rows:
        return None
    identity = {KINDS[need]: dict(who) for need, who in identities.items()}
    joined = Manifest(
        identity={"corpus": {"name": "senteval"}, **identity},
        inventories=first.inventories,
        complete=True,
        rows=rows,
    )
    return TreeCache(folder, joined)


@dataclass(frozen=True, kw_only=True)
class _PlacedRow(ShardRow):
    """A manifest's row whose shard lies in a folder below the joined cache's."""

    place: str

    @property
    def file(self) -> str:
        return self.place


def _missing(sentences: list[Tokens], cache: TreeCache | None) -> list[Tokens]:
    if cache is None:
        return sentences
    held: set[Tokens] = set()
    for start in range(0, len(cache), SHARD_SENTENCES):
        batch = cache.read(start, min(start + SHARD_SENTENCES, len(cache)), ("token",))
        held.update(map(tuple, batch.words()))
    return [sentence for sentence in sentences if sentence not in held]


def _digest(sentences: Sequence[Tokens], length: int = 12) -> str:
    """Hex digest over sentences in order."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update("\t".join(sentence).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()[:length]


def _key(identities: dict[str, Any]) -> str:
    text = json.dumps({need: dict(who) for need, who in identities.items()}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait until no other run parses into ``folder``."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = open(folder / ".lock", "a+")  # noqa: SIM115 (held until parsing ends)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror}); choose another --trees") from None
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _loaded(reader: Reader, needs: set[str]) -> ParserFactories:
    """The model's parsers themselves, for parsing in this process."""
    from parsing.pipeline.workers import ParserFactories

    return ParserFactories(
        dependency=(lambda: reader.parser("dep")) if "dep" in needs else None,
        constituency=(lambda: reader.parser("const")) if "const" in needs else None,
    )


def _to_load(reader: Reader, needs: set[str]) -> ParserFactories:
    """How worker processes load the model's parsers."""
    from parsing.models import load_constituency_parser, load_dependency_parser
    from parsing.pipeline.workers import ParserFactories

    dep, const = (reader.parser_spec(need) for need in ("dep", "const"))
    return ParserFactories(
        dependency=functools.partial(load_dependency_parser, dep) if "dep" in needs else None,
        constituency=functools.partial(load_constituency_parser, const) if "const" in needs else None,
    )


class TreeReading:
    """A multi-view encoder that looks its trees up; sentences that are not there are parsed on the fly.

    Args:
        model: a :class:`multiview.model.MultiViewEncoder`.
        trees: where to look: trees of tasks, a finished cache's folder, or None for whatever fits below
            ``runs/trees``.
        batch_size: sentences encoded at a time.
    """

    pretokenized = True

    def __init__(
        self, model: Any, trees: EvaluationTrees | Path | None = None, batch_size: int = 128
    ) -> None:
        from parsing.cache.reader import TreeCache

        self.model, self.batch_size = model, batch_size
        self.trees: TreeCache | None = None
        needs = model.requires - {"tokens"}
        if isinstance(trees, Path):
            self.trees = TreeCache.open(trees)
        elif needs and trees is not None:
            self.trees = trees.cache(model.reader, needs)
        elif needs and needs <= set(model.reader.identities):
            self.trees = find_caches(DEFAULT_FOLDER, {need: model.reader.identities[need] for need in needs})

    def encode(self, sentences: Sequence[str | Sequence[str]]) -> Float:
        """Vectors [n, D] of strings or token lists."""
        vectors: Float = self.model.encode(
            sentences, batch_size=self.batch_size, trees=self.trees, show_progress_bar=False
        )
        return vectors
