"""Build the ten probing tasks from a parsed corpus or a gold treebank, in SentEval's format.

    python -m senteval_runner.build_probing --trees runs/trees/books --output runs/probing
    python -m senteval_runner.build_probing --conllu gum.conllu --brackets gum.ptb --output runs/probing-gold

Input: a tree cache, or gold CoNLL-U and PTB brackets of the same sentences. Output: one
``tr|va|te <TAB> label <TAB> sentence`` file per task and ``probing.json``, which records whether the labels
came from gold trees or from a parser: probes of a parser's own output support no claim about encoders that
read the same parser's trees. Conneau et al. (2018), section 2.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.documents import Sentence
from corpora.support.cli import Command
from corpora.support.config import Count, CountOrNone, config_to_json, configuration
from corpora.support.errors import UserError
from corpora.support.files import write_json, write_text

if TYPE_CHECKING:
    from senteval_runner.probing.structure import Annotated


@configuration
class BuildConfig:
    """Options of ``senteval_runner.build_probing``."""

    trees: Path | None = None
    """Tree cache with both views."""
    conllu: Path | None = None
    """Gold dependencies (CoNLL-U with XPOS tags)."""
    brackets: Path | None = None
    """Gold constituents of the same sentences, one PTB tree per line."""
    output: Path = Path("runs/probing")
    """Folder for the task files; put them in DATA/probing for senteval_runner.run --data DATA."""
    tasks: str = ""
    """Tasks separated by commas; empty is all ten."""
    limit: Count = 120_000
    """At most this many items per task (the published size)."""
    seed: CountOrNone = 1111
    """Seed of every random choice."""


def gold_sentences(conllu: Path, brackets: Path) -> list[Annotated]:
    """Sentences of a treebank with both gold annotations.

    Raises:
        UserError: the two files hold different numbers of sentences, or of words in one.
    """
    from corpora.treebanks import read_brackets, read_conllu
    from parsing.trees.brackets import read_tree, write_tree
    from senteval_runner.probing.structure import Annotated

    dependencies = [sentence for document in read_conllu(conllu) for sentence in document.sentences]
    constituents = list(read_brackets(brackets))
    if len(dependencies) != len(constituents):
        raise UserError(
            f"{brackets}: {len(constituents)} trees for {len(dependencies)} sentences of {conllu}"
        )
    found = []
    for row, (dep, const) in enumerate(zip(dependencies, constituents, strict=True), 1):
        if len(dep.tokens) != len(const.tokens):
            raise UserError(
                f"{brackets}, tree {row}: {len(const.tokens)} words, but {len(dep.tokens)} in {conllu}"
            )
        assert const.tree is not None
        # Traces are not words. They are dropped so that tree positions are sentence positions.
        tree = write_tree(read_tree(const.tree, where=f"{brackets}, tree {row}"))
        found.append(Annotated(replace(dep, tags=const.tags, tree=tree)))
    return found


def parsed_sentences(folder: Path) -> list[Annotated]:
    """Sentences of a tree cache that carry no flag.

    Raises:
        UserError: the cache lacks a view.
    """
    from parsing.cache.reader import TreeCache
    from parsing.cache.sentences import cached_sentences
    from parsing.trees.brackets import SpanTree, write_tree
    from senteval_runner.probing.structure import MAX_TOKENS, MIN_TOKENS, Annotated

    cache = TreeCache.open(folder)
    for view in ("dep", "const"):
        if not cache.has(view):
            raise UserError(f"{folder}: holds no {view} trees, and the probes need both views")
    found = []
    for stored in cached_sentences(cache, 0, len(cache)):
        if stored.flags or not MIN_TOKENS <= len(stored.words) <= MAX_TOKENS:
            continue
        assert stored.tags and stored.heads and stored.relations and stored.spans is not None
        words, tags = tuple(stored.words), tuple(stored.tags)
        heads, relations = tuple(stored.heads), tuple(stored.relations)
        tree = write_tree(SpanTree(words, tags, tuple(stored.spans)))
        found.append(Annotated(Sentence(words, tags=tags, heads=heads, relations=relations, tree=tree)))
    return found


def main(config: BuildConfig) -> None:
    """Read the trees, build every task, write files and a summary."""
    from corpora.senteval.tasks import PROBING_FILES
    from senteval_runner.probing.tasks import BUILDERS, NEEDS_PARSE, build

    gold = config.conllu is not None or config.brackets is not None
    if gold == (config.trees is not None):
        raise UserError("give either --trees CACHE, or --conllu FILE and --brackets FILE")
    names = [name.strip() for name in config.tasks.split(",") if name.strip()] or list(BUILDERS)
    for name in names:
        if name not in BUILDERS:
            raise UserError(f"unknown probing task {name!r} (known: {', '.join(BUILDERS)})")
    if config.trees is not None:
        sentences = parsed_sentences(config.trees)
    elif config.conllu is not None and config.brackets is not None:
        sentences = gold_sentences(config.conllu, config.brackets)
    else:
        raise UserError("gold probes need both --conllu and --brackets")
    summary = {}
    for name in names:
        parts = build(name, sentences, seed=config.seed, limit=config.limit)
        lines = [f"{part}\t{item.label}\t{item.text}\n" for part, items in parts.items() for item in items]
        write_text(config.output / f"{PROBING_FILES[name]}.txt", "".join(lines))
        classes = Counter(item.label for items in parts.values() for item in items)
        summary[name] = {
            "classes": len(classes),
            "items": {part: len(items) for part, items in parts.items()},
            "labels_from": "words" if name not in NEEDS_PARSE else "gold trees" if gold else "parser",
        }
        sizes = " / ".join(str(len(items)) for items in parts.values())
        note = "" if lines else "   (too small a corpus)"
        print(f"{name:<22} {len(classes):>5} classes   {sizes} items{note}")
    write_json(config.output / "probing.json", {"config": config_to_json(config), "tasks": summary})
    print(f"written: {config.output}")


cli = Command(
    BuildConfig,
    main,
    "senteval_runner.build_probing",
    (__doc__ or "").split("\n")[0],
    owns=lambda config: config.output,
)


if __name__ == "__main__":
    sys.exit(cli())
