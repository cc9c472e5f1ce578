"""Trees of evaluation sentences, parsed once and shared by models, tasks and runs.

    runs/trees/senteval-<parsers>/<sentences>/     one tree cache per run that met new sentences

A tree encoder needs the parses of its own parsers. Sentences of the requested tasks that no cache holds yet
are parsed into a new one. All caches by the same parsers are read as one, whichever run wrote them, so a
killed run keeps its finished shards.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.senteval.files import TaskData
from corpora.support.files import json_digest, locked
from parsing.pipeline.driver import run_corpus

if TYPE_CHECKING:
    from multiview.folder.reading import Reader
    from multiview.model import MultiViewEncoder
    from parsing.pipeline.driver import Pool
    from parsing.trees.cache import ShardRow, TreeCache

Tokens = tuple[str, ...]
DEFAULT_FOLDER = Path("runs/trees")
# A killed run loses its unfinished shards; one core parses 4,096 sentences in a few seconds.
SHARD_SENTENCES = 4096
# Starting workers takes as long as parsing this many sentences in this process.
WORTH_WORKERS = 2048


@dataclass(kw_only=True)
class EvaluationTrees:
    """The trees of some tasks' sentences."""

    folder: Path
    """Folder of the tree caches: ``senteval`` by ``parsing.run``, ``senteval-<parsers>`` written here."""
    tasks: Sequence[TaskData]
    """Tasks whose missing sentences are parsed."""

    def cache(self, reader: Reader, needs: set[str]) -> TreeCache | None:
        """Trees of the tasks' sentences by a model's own parsers; missing sentences are parsed now.

        Args:
            reader: the model's reader, which knows its parsers.
            needs: ``dep``, ``const`` or both.

        Returns:
            All caches as one, or None if there are no sentences.

        Raises:
            UserError: the parsers are not those the model was trained with, or the folder cannot be written.
        """
        identities = {need: reader.identities.get(need) or reader.parser(need).identity for need in needs}
        name = f"senteval-{json_digest({need: dict(who) for need, who in identities.items()}, 12)}"
        with locked(self.folder / name, option="--trees", wait=True):
            found = find_caches(self.folder, identities)
            # As encoders get them: an empty sentence is ".".
            distinct = (
                tuple(tokens) or (".",)
                for task in self.tasks
                for part in task.splits.values()
                for tokens in part.sentences()
            )
            missing: list[Tokens] = list(dict.fromkeys(distinct))
            if found is not None:
                left_N, _ = reader.look_up(found, missing)
                missing = [missing[place] for place in left_N]
            if missing:
                self._parse(missing, self.folder / name / _digest(missing), reader, needs)
                found = find_caches(self.folder, identities)
        return found

    def _parse(self, sentences: list[Tokens], output: Path, reader: Reader, needs: set[str]) -> None:
        from corpora.text import Corpus, Sentence, in_pieces
        from parsing.pipeline.driver import LocalPool, Pool
        from parsing.text_parser import TextParser, load

        corpus = Corpus(
            "senteval",
            lambda: in_pieces("senteval", map(Sentence, sentences)),
            about={"reader": "senteval-tasks-1", "format": "lines", "tokenizer": "space"},
            hash_input=lambda: _digest(sentences, 64),
        )
        pool: Pool
        if len(sentences) < WORTH_WORKERS:  # with the model's parsers themselves
            parsers = (reader.parser(need) if need in needs else None for need in ("dep", "const"))
            parser = TextParser(*parsers)
            pool = Pool(lambda: parser)
        else:
            specs = (reader.parser_spec(need) if need in needs else None for need in ("dep", "const"))
            pool = LocalPool(functools.partial(load, *specs))
        summary = run_corpus(
            corpus, output, pool, shard_sentences=SHARD_SENTENCES, expected=lambda: len(sentences)
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
    from parsing.trees.cache import Manifest, TreeCache

    rows: list[ShardRow] = []
    first: Manifest | None = None
    for path in sorted([*folder.glob("senteval*/manifest.json"), *folder.glob("senteval-*/*/manifest.json")]):
        manifest = Manifest.read(path.parent)
        if any(manifest.identity.get(KINDS[need]) != dict(who) for need, who in identities.items()):
            continue
        first = first or manifest
        for row in manifest.shards:
            place = str((path.parent / row.file).relative_to(folder))
            rows.append(replace(row, index=len(rows), file=place))
    if first is None or not rows:
        return None
    identity = {KINDS[need]: dict(who) for need, who in identities.items()}
    joined = replace(
        first, identity={"corpus": {"name": "senteval"}, **identity}, complete=True, shards=tuple(rows)
    )
    return TreeCache(folder, joined)


def _digest(sentences: Sequence[Tokens], length: int = 12) -> str:
    """Hex digest over sentences in order."""
    digest = hashlib.sha256()
    for sentence in sentences:
        digest.update("\t".join(sentence).encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()[:length]


def open_trees(model: MultiViewEncoder, trees: EvaluationTrees | Path | None = None) -> TreeCache | None:
    """The tree cache of a model.

    Args:
        model: the encoder.
        trees: trees of tasks, folder of a finished cache, or None for all matching caches in ``runs/trees``.

    Returns:
        None if no trees are stored or the model needs none.
    """
    from parsing.trees.cache import TreeCache

    needs = model.requires - {"tokens"}
    if isinstance(trees, Path):
        return TreeCache.open(trees)
    if needs and trees is not None:
        return trees.cache(model.reader, needs)
    if needs and needs <= set(model.reader.identities):
        return find_caches(DEFAULT_FOLDER, {need: model.reader.identities[need] for need in needs})
    return None
