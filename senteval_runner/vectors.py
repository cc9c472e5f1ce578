"""Open models by name for evaluations, and parse the evaluation sentences once for all of them.

    runs/trees/senteval-<parsers>/<sentences>/     one tree cache per run that met new sentences

A tree encoder needs the parses of its own parsers. Sentences of the requested tasks that no cache holds yet
are parsed into a new one. All caches by the same parsers are read as one, whichever run wrote them, so a
killed run keeps its finished shards.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from corpora.characters import VERSION
from corpora.senteval.files import TaskData
from corpora.text import Corpus, Sentence, in_pieces
from multiview.folder.files import PARSER_KINDS
from multiview.folder.reading import SentenceReader
from multiview.model import MultiViewEncoder
from multiview.names.opened import OpenedEncoder, open_encoder
from parsing.pipeline.driver import LocalPool, Pool, run_corpus
from parsing.text_parser import TextParser, load
from parsing.trees.batch import is_same_parser
from parsing.trees.cache import Manifest, TreeCache
from parsing.trees.check import ShardRow
from runtime.files import json_digest, lock_folder

Tokens = tuple[str, ...]
SHARD_SENTENCES = 4096
"""A killed run loses its unfinished shards; one core parses as many sentences in a few seconds."""
WORTH_WORKERS = 2048
"""Starting workers takes as long as parsing this many sentences in this process."""


@dataclass(frozen=True, kw_only=True)
class EvaluationTrees:
    """Finds or makes the trees of some tasks' sentences."""

    folder: Path = Path("runs/trees")
    """A finished tree cache, or a folder of them: ``senteval`` by ``parsing.run``, ``senteval-<parsers>``
    written here."""
    tasks: Sequence[TaskData] = ()
    """Tasks whose missing sentences are parsed."""
    parsers: Mapping[str, str] = field(default_factory=dict)
    """Parsers of models whose own are not the builtin ones, by annotation (``dep``, ``const``)."""

    def of(self, model: MultiViewEncoder) -> TreeCache | None:
        """Give trees by a model's own parsers, those of all its views, so that each of its views shares them.

        All caches are read as one; None if there are no trees or the model needs none. A model that was
        trained with other parsers is refused.
        """
        needs, reader = sorted(model.requires_of() - {"tokens"}), model.reader
        reader.specs |= self.parsers
        if (self.folder / "manifest.json").exists():
            return TreeCache.open(self.folder)
        if not needs:
            return None
        identities = {need: reader.identities.get(need) or reader.parser(need).identity for need in needs}
        if not self.tasks:
            return find_caches(self.folder, identities)
        name = f"senteval-{json_digest({need: dict(who) for need, who in identities.items()}, 12)}"
        with lock_folder(self.folder / name, option="--trees", wait=True):
            trees = find_caches(self.folder, identities)
            parts = [part for task in self.tasks for part in task.splits.values()]
            sentences = (tuple(tokens) or (".",) for part in parts for tokens in part.sentences())
            missing = list(dict.fromkeys(sentences))
            if trees is not None:
                left_N, _ = reader.look_up(trees, missing)
                missing = [missing[place] for place in left_N]
            if missing:
                _parse(missing, self.folder / name / json_digest(missing, 12), reader, needs)
                trees = find_caches(self.folder, identities)
        return trees


def _parse(sentences: list[Tokens], output: Path, reader: SentenceReader, needs: Sequence[str]) -> None:
    """Parse sentences into a new cache: many of them in worker processes."""
    corpus = Corpus(
        "senteval",
        lambda: in_pieces("senteval", map(Sentence, sentences)),
        about={"reader": "senteval-tasks-1", "format": "lines", "tokenizer": "space"},
        hash_input=lambda: json_digest(sentences, 64),
        length=len(sentences),
    )
    pool: Pool
    if len(sentences) < WORTH_WORKERS:  # with the model's parsers themselves
        parser = TextParser(*(reader.parser(need) if need in needs else None for need in ("dep", "const")))
        pool = Pool(lambda: parser)
    else:
        specs = [reader.parser_spec(need) if need in needs else None for need in ("dep", "const")]
        pool = LocalPool(functools.partial(load, *specs))
    summary = run_corpus(corpus, output, pool, shard_sentences=SHARD_SENTENCES)
    print(f"parsed {summary.parsed_now:,} sentences in {summary.seconds:.1f} s into {output}")


def find_caches(folder: Path, identities: Mapping[str, Any]) -> TreeCache | None:
    """Read every cache of evaluation sentences below ``folder`` by these parsers as one; None without any.

    The identity of a parser is given per annotation (``dep``, ``const``); a cache may hold more.
    """
    wanted = {PARSER_KINDS[need]: dict(who) for need, who in identities.items()}
    rows: list[ShardRow] = []
    first: Manifest | None = None
    for path in sorted([*folder.glob("senteval*/manifest.json"), *folder.glob("senteval-*/*/manifest.json")]):
        manifest = Manifest.read(path.parent)
        same_parsers = all(
            is_same_parser(manifest.identity.get(kind) or {}, who) for kind, who in wanted.items()
        )
        if not same_parsers or manifest.identity.get("options", {}).get("characters") != VERSION:
            continue
        first = first or manifest
        for row in manifest.shards:
            place = str((path.parent / row.file).relative_to(folder))
            rows.append(replace(row, index=len(rows), file=place))
    if first is None or not rows:
        return None
    identity = {"corpus": {"name": "senteval"}, **wanted}
    return TreeCache(folder, replace(first, identity=identity, complete=True, shards=tuple(rows)))


def open_model(spec: str, *, trees: EvaluationTrees | None = None, **options: Any) -> OpenedEncoder:
    """Return the encoder a name means; the options are those of :func:`multiview.names.opened.open_encoder`.

    ``trees`` are those of a tree encoder's sentences, by default those that are in ``runs/trees``.
    """
    return open_encoder(spec, trees=(trees or EvaluationTrees()).of, **options)
