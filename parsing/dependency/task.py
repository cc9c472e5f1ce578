"""Training and scoring of the dependency model on treebank sentences."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from corpora.documents import Sentence
from parsing.dependency.model import BiaffineScorers, DependencyModel
from parsing.dependency.parser import BiaffineParser
from parsing.dependency.subword_model import SubwordDependencyModel, SubwordParser
from parsing.networks.config import DependencyConfig
from parsing.networks.features import ParserVocabulary
from parsing.networks.subwords import Transformer
from parsing.networks.training_sentences import PieceSentences, TrainingSentences, WordSentences
from parsing.trees.parsers import DependencyParse, DependencyParser

PUNCTUATION = "PUNCT"
"""Universal part-of-speech tag of the tokens that the main scores leave out."""


def relation_names(sentences: Sequence[Sentence]) -> list[str]:
    """Every relation of treebank sentences, sorted."""
    return sorted({relation for s in sentences for relation in _relations(s)})


class Arcs:
    """Gold heads and relations of training sentences.

    Args:
        sentences: with heads and relations.
        relations: names of the relations, in the model's order.
    """

    def __init__(self, sentences: Sequence[Sentence], relations: Sequence[str]) -> None:
        ids = {relation: i for i, relation in enumerate(relations)}
        self._heads = [np.array(s.heads, dtype=np.int64) for s in sentences]
        self._relations = [np.array([ids[r] for r in _relations(s)], dtype=np.int64) for s in sentences]
        self.sizes = [len(heads) for heads in self._heads]
        """Number of words of each sentence."""

    def loss(
        self, scorers: BiaffineScorers, x_BTD: Tensor, positions_B: Tensor, sentences: Sequence[int]
    ) -> Tensor:
        """Loss of the sentences with these indices.

        Args:
            scorers: the model.
            x_BTD: contextual states.
            positions_B: n + 1, positions of each sentence and its root, on the host.
            sentences: [B].
        """
        heads_N = torch.from_numpy(np.concatenate([self._heads[i] for i in sentences]))
        relations_N = torch.from_numpy(np.concatenate([self._relations[i] for i in sentences]))
        device = x_BTD.device
        return scorers.loss(x_BTD, positions_B, heads_N.to(device), relations_N.to(device))


class DependencyTask:
    """A dependency model, its training sentences and its dev sentences: a ``training.Task``."""

    metric = "las"

    def __init__(
        self,
        train: Sequence[Sentence],
        dev: Sequence[Sentence],
        config: DependencyConfig,
        transformer: Transformer | None = None,
    ) -> None:
        """Build vocabulary and model; call ``seed_everything`` first.

        Args:
            train: sentences with heads and relations.
            dev: sentences to score on, with universal tags too.
            config: sizes and dropout; of the encoder only when there is no transformer.
            transformer: the pretrained encoder; None for words and characters.
        """
        tokens = [s.tokens for s in train]
        relations = relation_names(train)
        self.module: DependencyModel | SubwordDependencyModel
        self._sentences: TrainingSentences
        self._end_positions = 0
        if transformer is None:
            vocabulary = ParserVocabulary.build(tokens, min_count=config.min_count)
            self.module = DependencyModel(vocabulary, relations, config.encoder, config.scorer)
            self._sentences = WordSentences(self.module.encoder, vocabulary, tokens)
            self._end_positions = self.module.end_positions
        else:
            # No end piece: every position but the root's is a token that can be a head.
            subwords = dataclasses.replace(transformer.config, end=None)
            parts = subwords, transformer.backbone, transformer.tokenizer
            self.module = SubwordDependencyModel(*parts, relations, config.scorer)
            transformer.start(self.module.subwords)
            self._sentences = PieceSentences(self.module.subwords, transformer.tokenizer, tokens)
        self.dev = dev
        self._targets = Arcs(train, relations)

    def sizes(self) -> list[int]:
        """Number of tokens of each training sentence."""
        return self._targets.sizes

    def loss(self, sentences: Sequence[int]) -> Tensor:
        """Training loss of the sentences with these indices."""
        states_BTD, positions_B = self._sentences.states(sentences)
        return self._targets.loss(self.module, states_BTD, positions_B - self._end_positions, sentences)

    def evaluate(self) -> dict[str, float]:
        """Attachment scores on the dev sentences, in per cent."""
        # A new parser each time: its cached type vectors are outdated after a step.
        if isinstance(self.module, SubwordDependencyModel):
            return score_parser(SubwordParser(self.module, {}), self.dev)
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
