"""Training and scoring of the constituency model on treebank trees.

Loss of a batch: mean margin loss of the trees (:mod:`parsing.constituency.loss`) + 5 times the mean
cross-entropy of the tags (benepar's weighting) + 5 times that of the arcs.

Arcs are a second use of dependency treebanks, which are larger: a linear layer on the word states
predicts each word's relation, the side of its head and the head's coarse tag. The layer is dropped
after training, but the encoder has learned from it. Sentences of those treebanks that are also among
the trees (same words) are not repeated.

Shapes: B sentences, T positions, P fenceposts (packed), N words (packed), D encoder output.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from corpora.documents import Sentence
from corpora.support.errors import UserError
from parsing.constituency.loss import margin_loss
from parsing.constituency.model import (
    ConstituencyModel,
    SpanModel,
    SpanParser,
    fencepost_vectors,
    word_states,
)
from parsing.constituency.score import score_trees
from parsing.constituency.subword_model import SubwordConstituencyModel, SubwordSpanParser
from parsing.networks.config import ConstituencyConfig
from parsing.networks.features import ParserVocabulary
from parsing.networks.subwords import Transformer
from parsing.networks.training_sentences import PieceSentences, TrainingSentences, WordSentences
from parsing.trees.brackets import SpanTree, from_parse, labels_and_tags, to_parse
from parsing.trees.parsers import ConstituencyParse, ConstituencyParser, Int

TAG_SCALE = 5.0
ARC_SCALE = 5.0
IGNORED = -100
MIN_ARC_COUNT = 20
"""Rarer arc classes are not learned."""


class TrainedNetwork(nn.Module):
    """The parser and the layer that helps to train it."""

    def __init__(self, parser: SpanModel, n_arcs: int) -> None:
        super().__init__()
        self.parser = parser
        self.arcs = nn.Linear(parser.width, n_arcs) if n_arcs else None


class ConstituencyTask:
    """A :class:`parsing.networks.training.Task`.

    Args:
        train: training trees.
        dev: trees to score on.
        config: sizes and dropout.
        extra: sentences with tags, heads and relations, trees or not.
        start: a model to start from: its weights, vocabulary, labels and tags. Its configuration must
            be ``config``.
        transformer: the pretrained encoder; None for words and characters.

    Raises:
        UserError: ``start`` lacks a label or tag of the training trees, or has another configuration.
    """

    metric = "f1"

    def __init__(
        self,
        train: Sequence[SpanTree],
        dev: Sequence[SpanTree],
        config: ConstituencyConfig,
        *,
        extra: Sequence[Sentence] = (),
        start: ConstituencyModel | None = None,
        transformer: Transformer | None = None,
    ) -> None:
        labels, tags = labels_and_tags(train)
        if start is not None:
            _check_start(start, labels, tags, config)
            labels, tags = list(start.labels), list(start.tags)
        label_ids = {label: i for i, label in enumerate(labels)}
        tag_ids = {tag: i for i, tag in enumerate(tags)}
        words = [tree.words for tree in train]
        position = {tokens: i for i, tokens in enumerate(words)}
        words += [s.tokens for s in extra if s.tokens not in position]
        self._parses: list[ConstituencyParse | None] = [to_parse(t, label_ids, tag_ids) for t in train]
        self._tags: list[Int] = [parse.tags for parse in self._parses if parse is not None]
        self._arcs: list[Int] = [np.full(len(tokens), IGNORED) for tokens in words]
        names = [arc_names(sentence) for sentence in extra]
        counts = Counter(name for arcs in names for name in arcs)
        self.arc_ids = {n: i for i, n in enumerate(sorted(n for n in counts if counts[n] >= MIN_ARC_COUNT))}
        for sentence, arcs in zip(extra, names, strict=True):
            at = position.get(sentence.tokens)
            if at is None:
                at = len(self._tags)
                self._parses.append(None)
                self._tags.append(np.array([tag_ids.get(tag, IGNORED) for tag in sentence.tags or ()]))
            self._arcs[at] = np.array([self.arc_ids.get(name, IGNORED) for name in arcs])
        self.model: ConstituencyModel | SubwordConstituencyModel
        self._sentences: TrainingSentences
        if transformer is None:
            if start is None:
                vocabulary = ParserVocabulary.build(words, min_count=config.min_count)
                start = ConstituencyModel(vocabulary, labels, tags, config)
            self.model = start
            self._sentences = WordSentences(start.encoder, start.vocabulary, words)
        else:
            parts = transformer.config, transformer.backbone, transformer.tokenizer
            self.model = SubwordConstituencyModel(*parts, labels, tags, config)
            transformer.start(self.model.subwords)
            self._sentences = PieceSentences(self.model.subwords, transformer.tokenizer, words)
        self._network = TrainedNetwork(self.model, len(self.arc_ids))
        self.module: nn.Module = self._network
        self.dev = dev

    def sizes(self) -> list[int]:
        """Number of words of each training sentence."""
        return [len(tags) for tags in self._tags]

    def loss(self, sentences: Sequence[int]) -> Tensor:
        """Mean loss of the sentences with these indices."""
        states_BTD, lengths_B = self._sentences.states(sentences)
        parses, tags = [self._parses[i] for i in sentences], [self._tags[i] for i in sentences]
        loss = span_loss(self.model, states_BTD, lengths_B, parses, tags)
        if self._network.arcs is not None:
            arcs_NK = self._network.arcs(word_states(states_BTD, lengths_B))
            loss = loss + ARC_SCALE * _cross_entropy(arcs_NK, [self._arcs[i] for i in sentences])
        return loss

    def evaluate(self) -> dict[str, float]:
        """Bracket scores and tag accuracy on the dev trees, per cent."""
        # A new parser each time: its cached type vectors are outdated after a step.
        if isinstance(self.model, SubwordConstituencyModel):
            return score_parser(SubwordSpanParser(self.model, {}), self.dev)
        return score_parser(SpanParser(self.model, {}), self.dev)


def _check_start(
    start: ConstituencyModel, labels: Sequence[str], tags: Sequence[str], config: ConstituencyConfig
) -> None:
    for kind, needed, known in (("label", labels, start.labels), ("tag", tags, start.tags)):
        if missing := sorted(set(needed) - set(known)):
            raise UserError(f"the model to start from has no {kind} {missing[0]!r}, which the trees have")
    if config != start.config:
        raise UserError(f"the model to start from has another configuration: {start.config}")


def score_parser(parser: ConstituencyParser, gold: Sequence[SpanTree]) -> dict[str, float]:
    """Parse treebank sentences from their words alone and score the result, per cent."""
    parses = parser.parse([tree.words for tree in gold])
    predicted = [
        from_parse(parse, tree.words, parser.labels, parser.tags)
        for parse, tree in zip(parses, gold, strict=True)
    ]
    scores = dataclasses.asdict(score_trees(gold, predicted))
    return {key: value for key, value in scores.items() if key != "sentences"}


def arc_names(sentence: Sentence) -> list[str]:
    """Class of each word's arc: relation without subtype, side of the head, the head's coarse tag."""
    if sentence.heads is None or sentence.relations is None or sentence.tags is None:
        return [""] * len(sentence.tokens)
    return [
        f"{relation.split(':')[0]} {'<' if head <= i else '>'} {sentence.tags[head - 1][:2] if head else ''}"
        for i, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True))
    ]


def span_loss(
    model: SpanModel,
    states_BTD: Tensor,
    positions_B: Tensor,
    parses: Sequence[ConstituencyParse | None],
    tags: Sequence[Int],
) -> Tensor:
    """Cross-entropy of the tags, weighted, plus the mean margin loss of the sentences that have a tree.

    Args:
        model: the heads.
        states_BTD: encoder output.
        positions_B: n + 2, positions of each sentence, on the host.
        parses: [B], gold trees.
        tags: [B] of [n], gold tags, ``IGNORED`` where there is none.
    """
    loss = TAG_SCALE * _cross_entropy(model.tag_head(word_states(states_BTD, positions_B)), tags)
    with_tree = [b for b, parse in enumerate(parses) if parse is not None]
    if with_tree:
        positions = positions_B[with_tree]
        posts_PD = fencepost_vectors(states_BTD[with_tree], positions)
        known = [parse for parse in parses if parse is not None]
        margins_B = margin_loss(
            model.span_head, posts_PD, positions.numpy() - 2, known, force=model.config.force_root
        )
        loss = loss + margins_B.mean()
    return loss


def _cross_entropy(scores_NC: Tensor, targets: Sequence[Int]) -> Tensor:
    """Mean cross-entropy over the words that have a target; 0 when none has."""
    targets_N = torch.from_numpy(np.concatenate(targets).astype(np.int64))
    on_device = targets_N.to(scores_NC.device)
    total = F.cross_entropy(scores_NC, on_device, ignore_index=IGNORED, reduction="sum")
    return total / max(int((targets_N != IGNORED).sum()), 1)
