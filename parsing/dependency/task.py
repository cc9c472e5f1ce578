"""Training and scoring of the dependency model on treebank sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from corpora.documents import Sentence
from parsing.dependency.model import DependencyModel
from parsing.dependency.parser import BiaffineParser
from parsing.networks.config import DependencyConfig
from parsing.networks.features import ParserVocabulary, TypeTable, make_batch
from parsing.trees.parsers import DependencyParse, DependencyParser

PUNCTUATION = "PUNCT"
"""Universal part-of-speech tag of the tokens that the main scores leave out."""


class DependencyTask:
    """A dependency model, its training sentences and its dev sentences: a ``training.Task``."""

    metric = "las"

    def __init__(self, train: Sequence[Sentence], dev: Sequence[Sentence], config: DependencyConfig) -> None:
        """Build vocabulary and model; call ``seed_everything`` first."""
        vocabulary = ParserVocabulary.build((s.tokens for s in train), min_count=config.min_count)
        relations = sorted({relation for s in train for relation in _relations(s)})
        self.module = DependencyModel(vocabulary, relations, config.encoder, config.scorer)
        self.dev = dev
        ids = {relation: i for i, relation in enumerate(relations)}
        self._table = TypeTable(vocabulary)
        self._rows = [self._table.rows(s.tokens) for s in train]
        self._heads = [np.array(s.heads, dtype=np.int64) for s in train]
        self._relations = [np.array([ids[r] for r in _relations(s)], dtype=np.int64) for s in train]

    def sizes(self) -> list[int]:
        """Number of tokens of each training sentence."""
        return [len(rows) for rows in self._rows]

    def loss(self, sentences: Sequence[int]) -> Tensor:
        """Training loss of the sentences with these indices."""
        batch = make_batch(self._table, [self._rows[i] for i in sentences], end_boundary=False)
        heads_N = torch.from_numpy(np.concatenate([self._heads[i] for i in sentences]))
        relations_N = torch.from_numpy(np.concatenate([self._relations[i] for i in sentences]))
        return self.module.loss(batch, heads_N, relations_N)

    def evaluate(self) -> dict[str, float]:
        """Attachment scores on the dev sentences, in per cent."""
        # A new parser each time: its cached type vectors are outdated after a step.
        return score_parser(BiaffineParser(self.module, {}), self.dev)


def _relations(sentence: Sentence) -> tuple[str, ...]:
    assert sentence.relations is not None, "treebank sentences carry relations"
    return sentence.relations


def score_parser(parser: DependencyParser, sentences: Sequence[Sentence]) -> dict[str, float]:
    """Parse treebank sentences from their words alone and score the result."""
    return attachment_scores(sentences, parser.parse([s.tokens for s in sentences]), parser.relations)


def attachment_scores(
    sentences: Sequence[Sentence], parses: Sequence[DependencyParse], relations: Sequence[str]
) -> dict[str, float]:
    """Attachment scores in per cent of tokens.

    Args:
        sentences: gold heads, relations and universal tags.
        parses: predictions, in the same order.
        relations: names of the predicted relation ids.

    Returns:
        ``uas`` (right head) and ``las`` (right head and relation, subtype included) over tokens that
        are not tagged PUNCT; ``uas_punct`` and ``las_punct`` over all tokens.
    """
    gold_heads = np.concatenate([np.array(s.heads) for s in sentences])
    gold_relations = np.array([r for s in sentences for r in _relations(s)])
    kept = np.array([tag != PUNCTUATION for s in sentences for tag in (s.tags or [""] * len(s.tokens))])
    head_right = gold_heads == np.concatenate([p.heads for p in parses])
    predicted = np.array(relations)[np.concatenate([p.relations for p in parses])]
    both_right = head_right & (gold_relations == predicted)
    return {
        "uas": 100 * float(head_right[kept].mean()),
        "las": 100 * float(both_right[kept].mean()),
        "uas_punct": 100 * float(head_right.mean()),
        "las_punct": 100 * float(both_right.mean()),
    }
