"""Gold treebanks and how well a parser agrees with them.

Arcs: attachment scores in per cent of tokens, relation subtypes included. Brackets, after EVALB (Sekine &
Collins 1997):

- Function tags are stripped, traces removed, unary chains are one bracket per label (``S::VP`` is two).
- The wrapper (``TOP``, ``ROOT``) is no bracket. The whole sentence's own label is one, as in EVALB.
- Punctuation is deleted before brackets are compared, by the gold tags that EVALB's COLLINS.prm names:
  ``, : . `` ''`` (not hyphens and brackets). Brackets that are empty then vanish.
- Brackets count with multiplicity: precision = matched / predicted, recall = matched / gold, F1 their
  harmonic mean over the whole treebank. ADVP and PRT are different labels (COLLINS.prm equates them).
- Tags are compared at every word, punctuation included.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from corpora.text import Sentence
from corpora.treebanks import TagColumn, read_conllu
from parsing.trees.arrays import DEFECTS, dependency_heights
from parsing.trees.batch import ConstituencyParser, DependencyParse, DependencyParser
from parsing.trees.brackets import CHAIN, SpanTree, from_parse, read_trees
from runtime.errors import UserError

Scores = dict[str, float]
PUNCT = "PUNCT"
"""Universal part-of-speech tag of the tokens that the main attachment scores leave out."""
PUNCTUATION = frozenset({",", ":", ".", "``", "''"})
"""Gold tags of the words that bracket scores do not see (EVALB's COLLINS.prm)."""


def read_dependencies(paths: Sequence[Path], *, tags: TagColumn = "upos") -> list[Sentence]:
    """Read sentences with heads, relations and tags (of the column ``upos`` or ``xpos``) of CoNLL-U files.

    A UserError names file and document of a sentence without a tree.
    """
    sentences = []
    for path in paths:
        for document in read_conllu(path, tags=tags):
            for sentence in document.sentences:
                where = f"{path}: document {document.id}: {' '.join(sentence.tokens)[:40]!r}"
                if sentence.heads is None:
                    raise UserError(f"{where} has no heads; annotate or remove it")
                ends = np.array([0, len(sentence.tokens)], np.int64)
                if defect := DEFECTS[dependency_heights(np.array(sentence.heads, np.int64), ends)[1][0]]:
                    raise UserError(f"{where}: {defect}; mend or remove it")
                sentences.append(sentence)
    if not sentences:
        raise UserError(f"{', '.join(map(str, paths)) or 'no file'}: no sentences to read")
    return sentences


def read_treebank(paths: Sequence[Path]) -> list[SpanTree]:
    """Return the trees of bracket files."""
    trees = [tree for path in paths for tree in read_trees(path)]
    if not trees:
        raise UserError(f"{', '.join(map(str, paths)) or 'no file'}: no trees to read")
    return trees


def score_constituency(parser: ConstituencyParser, gold: Sequence[SpanTree]) -> Scores:
    """Return the bracket scores of a parser that sees the words alone."""
    parses = parser.parse([tree.words for tree in gold])
    pairs = zip(parses, gold, strict=True)
    return bracket_scores(gold, [from_parse(p, t.words, parser.labels, parser.tags) for p, t in pairs])


def score_dependency(parser: DependencyParser, gold: Sequence[Sentence]) -> Scores:
    """Return attachment scores, in per cent of tokens, of a parser that sees the words alone.

    ``uas`` (right head) and ``las`` (right head and relation, subtype included) are over tokens that are not
    tagged PUNCT, ``uas_punct`` and ``las_punct`` over all tokens.
    """
    return attachment_scores(gold, parser.parse([s.tokens for s in gold]), parser.relations)


def attachment_scores(
    sentences: Sequence[Sentence], parses: Sequence[DependencyParse], relations: Sequence[str]
) -> Scores:
    """Return attachment scores of these parses; ``relations`` names their ids."""
    gold_heads = np.concatenate([np.array(s.heads) for s in sentences])
    gold_relations = np.array([relation for s in sentences for relation in s.relations or ()])
    spoken = np.array([tag != PUNCT for s in sentences for tag in (s.tags or [""] * len(s.tokens))])
    head_right = gold_heads == np.concatenate([p.heads for p in parses])
    predicted = np.array(relations)[np.concatenate([p.relations for p in parses])]
    both_right = head_right & (gold_relations == predicted)
    return {
        "uas": 100 * float(head_right[spoken].mean()),
        "las": 100 * float(both_right[spoken].mean()),
        "uas_punct": 100 * float(head_right.mean()),
        "las_punct": 100 * float(both_right.mean()),
    }


def brackets(tree: SpanTree, gold_tags: Iterable[str]) -> Counter[tuple[int, int, str]]:
    """Count labelled brackets over the words that are not punctuation."""
    words_before = [0]  # words that are not punctuation before each fencepost
    for tag in gold_tags:
        words_before.append(words_before[-1] + (tag not in PUNCTUATION))
    return Counter(
        (words_before[start], words_before[end], label)
        for start, end, chain in tree.spans
        if words_before[start] < words_before[end] and chain
        for label in chain.split(CHAIN)
    )


def bracket_scores(gold: Sequence[SpanTree], predicted: Sequence[SpanTree]) -> Scores:
    """Score in per cent; ``tags`` are words with the gold tag, ``complete`` sentences that are all right."""
    matched = in_gold = in_predicted = tags = words = complete = 0
    for one, other in zip(gold, predicted, strict=True):
        a, b = brackets(one, one.tags), brackets(other, one.tags)
        matched += (a & b).total()
        in_gold += a.total()
        in_predicted += b.total()
        complete += a == b
        tags += sum(x == y for x, y in zip(one.tags, other.tags, strict=True))
        words += len(one.words)
    pairs = {
        "precision": (matched, in_predicted),
        "recall": (matched, in_gold),
        "f1": (2 * matched, in_gold + in_predicted),
        "tags": (tags, words),
        "complete": (complete, len(gold)),
    }
    return {name: 100 * part / whole if whole else 0.0 for name, (part, whole) in pairs.items()}
