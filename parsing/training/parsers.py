"""Training a dependency parser, a constituency parser, or both over one sentence encoder.

A sentence may have arcs, a constituency tree, or both. The loss of a batch is

    mean margin loss of its trees + 5 (mean cross-entropy of tags) + 10 (mean −log p(head) − log p(relation))

(:mod:`parsing.constituency.loss`, benepar's weight of tags, :meth:`DependencyModel.loss`); without trees it
is the arcs' loss alone. Adam's learning rate rises, then falls to 0; the weights that are scored and kept are
an exponential average.

Shapes: B sentences, T positions, N words (packed), D encoder output.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from corpora.documents import Sentence
from parsing.constituency.loss import margin_loss
from parsing.constituency.model import ConstituencyModel, SpanParser, fencepost_vectors, word_states
from parsing.dependency.model import BiaffineParser, DependencyModel
from parsing.networks.config import LoopConfig, ModelConfig
from parsing.networks.features import ParserVocabulary, TypeTable, make_batch
from parsing.training.checkpoints import Checkpoint, load_parameters
from parsing.training.scores import score_constituency, score_dependency
from parsing.training.task import Position, Task, ramp
from parsing.trees.brackets import SpanTree, labels_and_tags, to_parse
from parsing.trees.parsers import ConstituencyParse, Int

TAG_SCALE = 5.0
ARC_SCALE = 10.0
"""Weight of the arcs' loss, a mean over words; the margin loss is a sum over the spans of a sentence."""
IGNORED = -100
BETAS = (0.9, 0.98)
"""Of Adam; squares that are forgotten as fast as by Dozat & Manning (0.9) made spans worse."""
WARMUP = 0.02
"""Fraction of the run over which the learning rate rises."""
CLIP = 5.0
AVERAGE = 0.999
"""Decay per step of the average of the weights."""

Model: TypeAlias = DependencyModel | ConstituencyModel


@dataclass(frozen=True, kw_only=True)
class Treebanks:
    """What is learned from; a parser is trained if it has training data."""

    sentences: Sequence[Sentence] = ()
    """With heads, relations and tags."""
    trees: Sequence[SpanTree] = ()
    """Of the same sentences or of others."""
    dev_sentences: Sequence[Sentence] = ()
    """To score arcs on, with universal tags."""
    dev_trees: Sequence[SpanTree] = ()


class ParserTask(Task[list[int]]):
    """The parsers that the treebanks teach; a batch is the numbers of its sentences.

    Sentences with arcs and trees with the same words are one training sentence (the first of each, then
    the second, if there are several). torch is seeded from ``loop``.
    """

    def __init__(
        self,
        treebanks: Treebanks,
        config: ModelConfig,
        loop: LoopConfig,
        device: torch.device | None = None,
    ) -> None:
        torch.set_num_threads(1)  # a second one gains little, and the last bits may depend on it
        torch.manual_seed(loop.seed)
        self.treebanks, self.loop = treebanks, loop
        words = self._read(treebanks)
        vocabulary = ParserVocabulary.build(words, min_count=config.min_count)
        self.constituency: ConstituencyModel | None = None
        self.dependency: DependencyModel | None = None
        self.models: list[Model] = []
        if treebanks.trees:
            names = labels_and_tags(treebanks.trees)
            self.constituency = ConstituencyModel(vocabulary, *names, config.encoder, config.spans)
            self.models.append(self.constituency)
        if treebanks.sentences:
            self.dependency = DependencyModel(vocabulary, self.relations, config.encoder, config.arcs)
            if self.constituency is not None:
                self.dependency.encoder = self.constituency.encoder
            self.models.append(self.dependency)
        self.encoder = self.models[0].encoder
        self._table = TypeTable(vocabulary)
        self._rows = [self._table.rows(tokens) for tokens in words]
        self.sizes = [len(tokens) for tokens in words]
        named = {"const": self.constituency, "dep": self.dependency}
        module = nn.ModuleDict({name: model for name, model in named.items() if model is not None}).to(device)
        on_cpu = device is None or device.type == "cpu"
        super().__init__(
            module,
            torch.optim.Adam(module.parameters(), betas=BETAS, fused=True),
            metric="mean",
            clip=CLIP,
            # Checkpoints keep the CPU's random state, not a device's.
            step_seed=None if on_cpu else loop.seed,
        )
        self.averages = {name: p.detach().clone() for name, p in module.named_parameters()}

    def _read(self, treebanks: Treebanks) -> list[tuple[str, ...]]:
        """Set the gold arcs, trees and tags; return the words of each training sentence."""
        sentences = treebanks.sentences
        self.relations = sorted({relation for s in sentences for relation in s.relations or ()})
        ids = {relation: i for i, relation in enumerate(self.relations)}
        self.arcs = [
            (np.array(s.heads, np.int64), np.array([ids[r] for r in s.relations or ()], np.int64))
            for s in sentences
        ]
        labels, tags = ({n: i for i, n in enumerate(names)} for names in labels_and_tags(treebanks.trees))
        words = [s.tokens for s in sentences]
        self.parses: list[ConstituencyParse | None] = [None] * len(words)
        self.tags: list[Int] = [
            np.array([tags.get(tag, IGNORED) for tag in s.tags or [""] * len(s.tokens)]) for s in sentences
        ]
        places: defaultdict[tuple[str, ...], deque[int]] = defaultdict(deque)
        for i, tokens in enumerate(words):
            places[tokens].append(i)
        for tree in treebanks.trees:
            parse = to_parse(tree, labels, tags)
            if places[tree.words]:
                at = places[tree.words].popleft()
                self.parses[at], self.tags[at] = parse, parse.tags
            else:
                words.append(tree.words)
                self.parses.append(parse)
                self.tags.append(parse.tags)
        return words

    def batches(self, epoch: int) -> list[list[int]]:
        """See :func:`length_buckets`."""
        generator = np.random.default_rng([self.loop.seed, epoch])
        return length_buckets(self.sizes, self.loop.batch_tokens, generator)

    def learning_rate(self, position: Position) -> float:
        """A linear rise over :data:`WARMUP` of the run, then a linear fall to 0 at its end."""
        done = max(position.progress, (position.step + 0.5) / position.steps)
        return self.loop.learning_rate * ramp(done, WARMUP) * ramp(1 - done, 1 - WARMUP)

    def loss(self, batch: list[int]) -> Tensor:
        """See the module's docstring."""
        words = make_batch(
            self._table, [self._rows[i] for i in batch], end_boundary=self.encoder.config.end_boundary
        )
        states_BTD, positions_B = self.encoder(words), words.lengths_B
        losses: list[Tensor] = []
        if self.constituency is not None:
            parses, tags = [self.parses[i] for i in batch], [self.tags[i] for i in batch]
            losses.append(span_loss(self.constituency, states_BTD, positions_B, parses, tags))
        with_arcs = [b for b, i in enumerate(batch) if i < len(self.arcs)]
        if self.dependency is not None and with_arcs:
            columns = zip(*(self.arcs[batch[b]] for b in with_arcs), strict=True)
            gold = (torch.from_numpy(np.concatenate(column)).to(states_BTD.device) for column in columns)
            arcs = self.dependency.loss(
                states_BTD[with_arcs], positions_B[with_arcs] - self.dependency.end_positions, *gold
            )
            losses.append(ARC_SCALE * arcs if self.constituency is not None else arcs)
        return sum(losses[1:], start=losses[0])

    def step(self, position: Position, batch: list[int]) -> None:
        """An update of the weights and of their average."""
        super().step(position, batch)
        # A young average forgets faster, so that the random initial weights fade from it.
        decay = min(AVERAGE, (1 + position.step) / (10 + position.step))
        for name, parameter in self.module.named_parameters():
            self.averages[name].lerp_(parameter.detach(), 1 - decay)

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """The average in place of the weights."""
        with super().evaluating():
            kept = {name: p.detach().clone() for name, p in self.module.named_parameters()}
            load_parameters(self.module, self.averages)
            yield
            load_parameters(self.module, kept)

    def evaluate(self) -> dict[str, float]:
        """Scores of the parsers on dev, per cent, and the mean of LAS and F1, which decides."""
        # New parsers each time: cached type vectors are outdated after a step.
        found: dict[str, float] = {}
        if self.dependency is not None:
            found |= score_dependency(BiaffineParser(self.dependency, {}), self.treebanks.dev_sentences)
        if self.constituency is not None:
            found |= score_constituency(SpanParser(self.constituency, {}), self.treebanks.dev_trees)
        main = [found[name] for name in ("las", "f1") if name in found]
        return {**found, "mean": sum(main) / len(main)}

    def optimiser_state(self) -> dict[str, Tensor]:
        """Adam's moments and the average."""
        return super().optimiser_state() | {f"average.{name}": value for name, value in self.averages.items()}

    def load(self, found: Checkpoint) -> None:
        """Take up weights, moments and average."""
        super().load(found)
        for name, average in self.averages.items():
            average.copy_(found.optimiser[f"average.{name}"])


def length_buckets(
    sizes: Sequence[int], batch_tokens: int, generator: np.random.Generator
) -> list[list[int]]:
    """Shuffled batches of sentences of similar length.

    Sentences are sorted by length with a little noise (so that batches differ between epochs), cut
    where a batch reaches ``batch_tokens`` words, and the batches are shuffled.
    """
    order = np.argsort(np.asarray(sizes) + generator.uniform(0, 1, len(sizes)), kind="stable")
    batches: list[list[int]] = []
    words = batch_tokens
    for index in order.tolist():
        if words + sizes[index] > batch_tokens:
            batches.append([])
            words = 0
        batches[-1].append(index)
        words += sizes[index]
    return [batches[i] for i in generator.permutation(len(batches))]


def span_loss(
    model: ConstituencyModel,
    states_BTD: Tensor,
    positions_B: Tensor,
    parses: Sequence[ConstituencyParse | None],
    tags: Sequence[Int],
) -> Tensor:
    """Cross-entropy of the tags, weighted, plus the mean margin loss of the sentences that have a tree.

    ``positions_B`` are n + 2, on the host; gold tags, [B] of [n], are ``IGNORED`` where there is none.
    """
    scores_NC = model.tag_head(word_states(states_BTD, positions_B))
    targets_N = torch.from_numpy(np.concatenate(tags).astype(np.int64))
    on_device = targets_N.to(scores_NC.device)
    total = F.cross_entropy(scores_NC, on_device, ignore_index=IGNORED, reduction="sum")
    loss = TAG_SCALE * (total / max(int((targets_N != IGNORED).sum()), 1))
    with_tree = [b for b, parse in enumerate(parses) if parse is not None]
    if with_tree:
        positions = positions_B[with_tree]
        posts_PD = fencepost_vectors(states_BTD[with_tree], positions)
        known = [parse for parse in parses if parse is not None]
        force = model.config.force_root
        loss = loss + margin_loss(model.span_head, posts_PD, positions.numpy() - 2, known, force=force).mean()
    return loss
