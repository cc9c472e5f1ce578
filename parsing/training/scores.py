"""Reads gold treebanks and scores parsers on them.

Dependency trees have attachment scores, in per cent of tokens, relation subtypes included. Constituency trees
have scores of brackets, after EVALB (Sekine & Collins 1997):

- Function tags are stripped, traces removed, unary chains are one bracket per label (``S::VP`` is two).
- The wrapper (``TOP``, ``ROOT``) is no bracket. The label of the whole sentence is one, as in EVALB.
- Punctuation is deleted before brackets are compared, by the gold tags that EVALB's COLLINS.prm names:
  ``, : . `` ''`` (not hyphens and brackets). Brackets that are empty then vanish.
- Brackets count with multiplicity: precision = matched / predicted, recall = matched / gold, F1 their
  harmonic mean over the whole treebank. ADVP and PRT are different labels (COLLINS.prm equates them).
- Tags are compared at every word, punctuation included.
"""

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corpora.brackets import read_brackets
from corpora.text import CHAIN_JOINER, Sentence
from corpora.treebanks import TagColumn, read_conllu
from parsing.trees.arrays import DEFECTS, dependency_heights, from_parse
from runtime.errors import UserError

Scores = dict[str, float]
PUNCTUATION_TAGS = frozenset({",", ":", ".", "``", "''"})
"""The gold tags of words that the scores of brackets leave out (EVALB's COLLINS.prm)."""


def read_gold(kind: str, paths: Sequence[Path], *, tags: TagColumn = "upos") -> list[Sentence]:
    """Read the sentences of CoNLL-U files (``dep``) or bracket files (``const``).

    Raises UserError if there are no sentences, or if the heads of a sentence are missing or not a tree.
    """
    sentences: list[Sentence] = []
    for path in paths:
        if kind == "const":
            sentences += read_brackets(path)
            continue
        for document in read_conllu(path, tags=tags):
            for sentence in document.sentences:
                where = f"{path}: document {document.id}: {' '.join(sentence.tokens)[:40]!r}"
                if sentence.heads is None:
                    raise UserError(f"{where} has no heads; annotate or remove it")
                heads, offsets = np.array(sentence.heads), np.array([0, len(sentence.tokens)])
                _, defects = dependency_heights(heads, offsets)
                if defect := DEFECTS.get(int(defects[0])):
                    raise UserError(f"{where}: {defect}; mend or remove it")
                sentences.append(sentence)
    if not sentences:
        raise UserError(f"{', '.join(map(str, paths)) or 'no file'}: no sentences to read")
    return sentences


def score_parser(kind: str, parser: Any, gold: Sequence[Sentence]) -> Scores:
    """Return attachment scores (``dep``) or bracket scores (``const``) of a parser; it gets the words alone.

    ``uas`` (right head) and ``las`` (right head and relation, subtype included) are over tokens that are not
    tagged PUNCT, ``uas_punct`` and ``las_punct`` over all tokens. :func:`bracket_scores` names the scores of
    brackets.
    """
    parses = parser.parse([s.tokens for s in gold])
    if kind == "const":
        trees = [
            from_parse(parse, tree.tokens, parser.labels, parser.tags)
            for parse, tree in zip(parses, gold, strict=True)
        ]
        return bracket_scores(gold, trees)
    gold_heads = np.concatenate([np.array(s.heads) for s in gold])
    gold_relations = np.array([relation for s in gold for relation in s.relations or ()])
    is_word = np.array([tag != "PUNCT" for s in gold for tag in (s.tags or [""] * len(s.tokens))])
    head_is_right = gold_heads == np.concatenate([parse.heads for parse in parses])
    parsed_relations = np.array(parser.relations)[np.concatenate([parse.relations for parse in parses])]
    both_are_right = head_is_right & (gold_relations == parsed_relations)
    return {
        "uas": 100 * float(head_is_right[is_word].mean()),
        "las": 100 * float(both_are_right[is_word].mean()),
        "uas_punct": 100 * float(head_is_right.mean()),
        "las_punct": 100 * float(both_are_right.mean()),
    }


def count_brackets(tree: Sentence, gold_tags: Iterable[str]) -> Counter[tuple[int, int, str]]:
    """Count the labelled brackets of a tree after punctuation is removed by the gold tags."""
    words_before = [0]  # at each fencepost, the words before it that are not punctuation
    for tag in gold_tags:
        words_before.append(words_before[-1] + (tag not in PUNCTUATION_TAGS))
    return Counter(
        (words_before[first], words_before[end], label)
        for first, end, chain in tree.spans or ()
        if words_before[first] < words_before[end] and chain
        for label in chain.split(CHAIN_JOINER)
    )


def bracket_scores(gold: Sequence[Sentence], trees: Sequence[Sentence]) -> Scores:
    """Return precision, recall and F1 of brackets over a treebank, in per cent.

    ``tags`` is the percentage of words with the gold tag, ``complete`` that of sentences whose brackets are
    all right.
    """
    common = in_gold = in_trees = right_tags = words = complete = 0
    for gold_tree, tree in zip(gold, trees, strict=True):
        gold_tags = gold_tree.tags or ()
        gold_brackets = count_brackets(gold_tree, gold_tags)
        tree_brackets = count_brackets(tree, gold_tags)
        common += (gold_brackets & tree_brackets).total()
        in_gold += gold_brackets.total()
        in_trees += tree_brackets.total()
        complete += gold_brackets == tree_brackets
        right_tags += sum(map(operator.eq, gold_tags, tree.tags or ()))
        words += len(gold_tree.tokens)
    return {
        "precision": _per_cent(common, in_trees),
        "recall": _per_cent(common, in_gold),
        "f1": _per_cent(2 * common, in_gold + in_trees),
        "tags": _per_cent(right_tags, words),
        "complete": _per_cent(complete, len(gold)),
    }


def _per_cent(count: int, total: int) -> float:
    return 100 * count / total if total else 0.0
