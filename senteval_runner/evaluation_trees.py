"""Open models by name for evaluations, and parse the sentences of the tasks once for all models.

    runs/trees/senteval-<parsers>/<sentences>/     one tree cache per run that met new sentences

A tree encoder needs trees by its own parsers. The trees of a task's sentences are looked up in all caches
that the same parsers made, whichever run wrote them; sentences that none of them holds are parsed into a new
cache. If that run is killed, its finished shards are still read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from corpora.characters import VERSION
from corpora.senteval.files import TaskData
from multiview.folder.sentence_trees import parse_sentences
from multiview.model import MultiViewEncoder
from multiview.names.grammar import Name
from multiview.names.opened import OpenedEncoder, open_encoder
from parsing.names import MANIFEST
from parsing.trees.batch import ANNOTATIONS, is_same_parser
from parsing.trees.cache import Manifest, TreeCache
from parsing.trees.check import ShardRow
from runtime.files import json_digest, lock_folder

Tokens = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EvaluationTrees:
    """The trees of the sentences of ``tasks``, which are parsed when a model needs them."""

    folder: Path = Path("runs/trees")
    """A finished tree cache, or a folder of caches: ``senteval`` by ``parsing.run``, ``senteval-<parsers>``
    by this class."""
    tasks: Sequence[TaskData] = ()
    """Tasks whose missing sentences are parsed."""
    parsers: Mapping[str, str] = field(default_factory=dict)
    """Parsers of models that have others than the builtin ones, by annotation (``dep``, ``const``)."""

    def of(self, model: MultiViewEncoder) -> TreeCache | None:
        """Return the trees that the views of ``model`` read, by the parsers that it was trained with.

        Returns None if there are no trees, or the model needs none. Raises UserError if the model was trained
        with other parsers than those that can be loaded.
        """
        kinds = sorted(model.requires_of() - {"tokens"})
        reader = model.reader
        reader.parser_names |= self.parsers
        if (self.folder / MANIFEST).exists():
            return TreeCache.open(self.folder)
        if not kinds:
            return None
        identities = {kind: reader.identities.get(kind) or reader.parser(kind).identity for kind in kinds}
        if not self.tasks:
            return find_caches(self.folder, identities)
        digest = json_digest({kind: dict(identity) for kind, identity in identities.items()}, 12)
        folder = self.folder / f"senteval-{digest}"
        with lock_folder(folder, option="--trees", wait=True):
            trees = find_caches(self.folder, identities)
            splits = [split for task in self.tasks for split in task.splits.values()]
            sentences = (tuple(tokens) or (".",) for split in splits for tokens in split.sentences())
            missing_sentences = list(dict.fromkeys(sentences))
            if trees is not None:
                missing_N, _ = reader.look_up(trees, missing_sentences)
                missing_sentences = [missing_sentences[index] for index in missing_N]
            if missing_sentences:
                output = folder / json_digest(missing_sentences, 12)
                parse_sentences(missing_sentences, output, reader, kinds, name="senteval")
                trees = find_caches(self.folder, identities)
        return trees


def find_caches(folder: Path, identities: Mapping[str, Any]) -> TreeCache | None:
    """Return all caches of evaluation sentences below ``folder`` by these parsers as one cache.

    ``identities`` are those of the parsers by annotation (``dep``, ``const``). A cache may hold further
    annotations. Returns None if no cache is by these parsers.
    """
    parsers = {ANNOTATIONS[kind].parser: dict(identity) for kind, identity in identities.items()}
    rows: list[ShardRow] = []
    first_manifest: Manifest | None = None
    for path in sorted([*folder.glob(f"senteval*/{MANIFEST}"), *folder.glob(f"senteval-*/*/{MANIFEST}")]):
        manifest = Manifest.read(path.parent)
        identity = manifest.identity
        has_same_parsers = all(is_same_parser(identity.get(kind) or {}, parsers[kind]) for kind in parsers)
        if not has_same_parsers or identity.get("options", {}).get("characters") != VERSION:
            continue
        first_manifest = first_manifest or manifest
        for row in manifest.shards:
            file = str((path.parent / row.file).relative_to(folder))
            rows.append(replace(row, index=len(rows), file=file))
    if first_manifest is None or not rows:
        return None
    identity = {"corpus": {"name": "senteval"}, **parsers}
    return TreeCache(folder, replace(first_manifest, identity=identity, complete=True, shards=tuple(rows)))


def open_model(
    names: str | Sequence[Name], *, trees: EvaluationTrees | None = None, **options: Any
) -> OpenedEncoder:
    """Open the encoder with that name for an evaluation; it stores the vectors that it computes.

    ``trees`` are the trees of the sentences, by default those in ``runs/trees``; ``options`` are those of
    :func:`multiview.names.opened.open_encoder`.
    """
    return open_encoder(names, keep=True, trees=(trees or EvaluationTrees()).of, **options)
