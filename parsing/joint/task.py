"""Training both parsers over one encoder: a sentence may have arcs, a constituency tree, or both."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from corpora.documents import Sentence
from corpora.support.errors import UserError
from parsing.constituency.model import ConstituencyModel, SpanParser
from parsing.constituency.task import IGNORED, span_loss
from parsing.constituency.task import score_parser as score_spans
from parsing.dependency.model import DependencyModel
from parsing.dependency.parser import BiaffineParser
from parsing.dependency.task import Arcs, relation_names
from parsing.dependency.task import score_parser as score_arcs
from parsing.networks.config import ConstituencyConfig, JointConfig
from parsing.networks.features import UNKNOWN, ParserVocabulary
from parsing.networks.training_sentences import WordSentences
from parsing.trees.brackets import SpanTree, labels_and_tags, to_parse
from parsing.trees.parsers import ConstituencyParse, Int

ARC_SCALE = 10.0
"""Weight of the arcs' loss, a mean over words; the margin loss is a sum over the spans of a sentence."""


JointPart: TypeAlias = DependencyModel | ConstituencyModel


class JointTask:
    """A :class:`parsing.networks.training.Task`.

    Sentences with arcs and trees with the same words are one training sentence (the first of each, then
    the second, if there are several).

    Args:
        sentences: with heads, relations and tags.
        trees: constituency trees, of the same sentences or of others.
        dev_sentences: to score arcs on, with universal tags.
        dev_trees: to score spans on.
        config: sizes and dropout.
        start: models to start from: a dependency model, or both of an earlier run. New words start as their
            unknown word.

    Raises:
        UserError: ``start`` has other sizes, relations, labels or tags.
    """

    metric = "mean"

    def __init__(
        self,
        sentences: Sequence[Sentence],
        trees: Sequence[SpanTree],
        dev_sentences: Sequence[Sentence],
        dev_trees: Sequence[SpanTree],
        config: JointConfig,
        start: Sequence[JointPart] = (),
    ) -> None:
        labels, tags = labels_and_tags(trees)
        label_ids, tag_ids = ({name: i for i, name in enumerate(names)} for names in (labels, tags))
        words = [s.tokens for s in sentences]
        self._parses: list[ConstituencyParse | None] = [None] * len(words)
        self._tags: list[Int] = [
            np.array([tag_ids.get(tag, IGNORED) for tag in s.tags or [""] * len(s.tokens)]) for s in sentences
        ]
        places: defaultdict[tuple[str, ...], deque[int]] = defaultdict(deque)
        for i, tokens in enumerate(words):
            places[tokens].append(i)
        for tree in trees:
            parse = to_parse(tree, label_ids, tag_ids)
            if places[tree.words]:
                at = places[tree.words].popleft()
                self._parses[at], self._tags[at] = parse, parse.tags
            else:
                words.append(tree.words)
                self._parses.append(parse)
                self._tags.append(parse.tags)
        relations = relation_names(sentences)
        self._arcs = Arcs(sentences, relations)
        vocabulary = ParserVocabulary.build(words, min_count=config.min_count)
        spans = ConstituencyConfig(
            encoder=config.encoder,
            label_hidden=config.label_hidden,
            tag_hidden=config.tag_hidden,
            force_root=config.force_root,
            min_count=config.min_count,
        )
        self.constituency = ConstituencyModel(vocabulary, labels, tags, spans)
        self.dependency = DependencyModel(vocabulary, relations, config.encoder, config.scorer)
        self.dependency.encoder = self.constituency.encoder
        for given in start:
            _start_from(self.dependency if isinstance(given, DependencyModel) else self.constituency, given)
        self._sentences = WordSentences(self.constituency.encoder, vocabulary, words)
        self.module: nn.Module = nn.ModuleDict({"const": self.constituency, "dep": self.dependency})
        self.dev_sentences, self.dev_trees = dev_sentences, dev_trees

    def sizes(self) -> list[int]:
        """Number of words of each training sentence."""
        return [len(tags) for tags in self._tags]

    def loss(self, sentences: Sequence[int]) -> Tensor:
        """Loss of spans and tags plus the weighted loss of arcs, of the sentences with these indices."""
        states_BTD, positions_B = self._sentences.states(sentences)
        parses, tags = [self._parses[i] for i in sentences], [self._tags[i] for i in sentences]
        loss = span_loss(self.constituency, states_BTD, positions_B, parses, tags)
        with_arcs = [b for b, i in enumerate(sentences) if i < len(self._arcs.sizes)]
        if with_arcs:
            chosen = [sentences[b] for b in with_arcs]
            arcs = self._arcs.loss(self.dependency, states_BTD[with_arcs], positions_B[with_arcs] - 1, chosen)
            loss = loss + ARC_SCALE * arcs
        return loss

    def evaluate(self) -> dict[str, float]:
        """Scores of both parsers on dev, per cent, and the mean of LAS and F1, which decides."""
        # New parsers each time: cached type vectors are outdated after a step.
        arcs = score_arcs(BiaffineParser(self.dependency, {}), self.dev_sentences)
        spans = score_spans(SpanParser(self.constituency, {}), self.dev_trees)
        return {**arcs, **spans, "mean": (arcs["las"] + spans["f1"]) / 2}


@torch.no_grad()
def _start_from(model: JointPart, start: JointPart) -> None:
    """Copy the weights of ``start``, a model of the same class; rows of words and characters by name.

    Raises:
        UserError: the models have other sizes or names.
    """
    for kind, names in _predicted(model).items():
        if names != _predicted(start)[kind]:
            odd = sorted(set(names) ^ set(_predicted(start)[kind])) or names
            raise UserError(f"--start-from: the model and the treebanks have other {kind} ({odd[0]!r})")
    tables = {
        "encoder.words.weight": (model.vocabulary.words, start.vocabulary.words),
        "encoder.characters.embedding.weight": (model.vocabulary.characters, start.vocabulary.characters),
    }
    own, given = dict(model.named_parameters()), dict(start.named_parameters())
    for name, parameter in own.items():
        source = given.get(name)
        if source is None or source.shape[name in tables :] != parameter.shape[name in tables :]:
            raise UserError(f"--start-from: the model has other sizes ({name})")
        if name in tables:
            names, known = tables[name]
            rows = {entry: row for row, entry in enumerate(known)}
            parameter.copy_(source[[rows.get(entry, UNKNOWN) for entry in names]])
        else:
            parameter.copy_(source)


def _predicted(model: JointPart) -> dict[str, tuple[str, ...]]:
    """Names of what a model predicts."""
    if isinstance(model, DependencyModel):
        return {"relations": model.relations}
    return {"labels": model.labels, "tags": model.tags}
