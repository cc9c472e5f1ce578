"""Training a dependency parser, a constituency parser, or both over one sentence encoder.

A sentence may have arcs, a constituency tree, or both. The loss of a batch is

    mean margin loss of its trees + 5 (mean cross-entropy of tags) + 10 (mean −log p(head) − log p(relation))

(:meth:`ConstituencyModel.loss`, :meth:`DependencyModel.loss`); without trees it is the arcs' loss alone.
Adam's learning rate rises, then falls to 0; the weights that are scored and kept are an exponential average.

Shapes: B sentences, T positions, D encoder output.
"""

import contextlib
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from corpora.text import Sentence
from parsing.networks.config import ModelConfig, ParserLoopConfig
from parsing.networks.constituency import IGNORED, ConstituencyModel, SpanParser
from parsing.networks.dependency import BiaffineParser, DependencyModel
from parsing.networks.features import ParserVocabulary, TypeTable, make_batch
from parsing.training.scores import Scores, score_constituency, score_dependency
from parsing.trees.batch import ConstituencyParse, Int
from parsing.trees.brackets import SpanTree, labels_and_tags, to_parse
from runtime.training_task import Checkpoint, Position, Task, load_parameters, ramp

ARC_SCALE = 10.0
"""Weight of the arcs' loss, a mean over words; the margin loss is a sum over the spans of a sentence."""
BETAS = (0.9, 0.98)
"""Adam's decay rates; squares that are forgotten as fast as by Dozat & Manning (0.9) made spans worse."""
WARMUP = 0.02
"""Fraction of the run over which the learning rate rises."""
CLIP = 5.0
AVERAGE = 0.999
"""Decay per step of the average of the weights."""
Model: TypeAlias = DependencyModel | ConstituencyModel


class ParserTask(Task[list[int]]):
    """The parsers that have training data; a batch is the numbers of its sentences.

    Sentences with arcs and trees with the same words are one training sentence (the first of each, then
    the second, if there are several). torch is seeded from ``loop``; ``dev`` are sentences, with universal
    tags, and trees.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        trees: Sequence[SpanTree],
        dev: tuple[Sequence[Sentence], Sequence[SpanTree]],
        config: ModelConfig,
        loop: ParserLoopConfig,
        device: torch.device | None = None,
    ) -> None:
        torch.set_num_threads(1)  # a second one gains little, and the last bits may depend on it
        torch.manual_seed(loop.seed)
        self.dev, self.loop, self.words = dev, loop, self._read(sentences, trees)
        vocabulary = ParserVocabulary.build(self.words, min_count=config.min_count)
        self.constituency: ConstituencyModel | None = None
        self.dependency: DependencyModel | None = None
        self.models: dict[str, Model] = {}
        if trees:
            names = labels_and_tags(trees)
            self.constituency = ConstituencyModel(vocabulary, *names, config.encoder, config.spans)
            self.models["const"] = self.constituency
        if sentences:
            self.dependency = DependencyModel(vocabulary, self.relations, config.encoder, config.arcs)
            if self.constituency is not None:
                self.dependency.encoder = self.constituency.encoder
            self.models["dep"] = self.dependency
        self.encoder = next(iter(self.models.values())).encoder
        self.encoder.dropout = loop.dropout
        self._table = TypeTable(vocabulary)
        for tokens in self.words:  # the order of rows is that of sums, after a resumption too
            self._table.rows(tokens)
        module = nn.ModuleDict(self.models).to(device)
        super().__init__(
            module,
            torch.optim.Adam(module.parameters(), betas=BETAS, fused=True),
            metric="mean",
            clip=CLIP,
            # Checkpoints keep the CPU's random state, not a device's.
            step_seed=None if device is None or device.type == "cpu" else loop.seed,
        )
        self.averages = {name: p.detach().clone() for name, p in module.named_parameters()}

    def _read(self, sentences: Sequence[Sentence], trees: Sequence[SpanTree]) -> list[tuple[str, ...]]:
        """Set the gold arcs, trees and tags; return the words of each training sentence."""
        self.relations = sorted({relation for s in sentences for relation in s.relations or ()})
        ids = {relation: i for i, relation in enumerate(self.relations)}
        self.arcs = [
            (np.array(s.heads, np.int64), np.array([ids[r] for r in s.relations or ()], np.int64))
            for s in sentences
        ]
        labels, tags = ({name: i for i, name in enumerate(names)} for names in labels_and_tags(trees))
        words = [s.tokens for s in sentences]
        self.parses: list[ConstituencyParse | None] = [None] * len(words)
        self.tags: list[Int] = [
            np.array([tags.get(tag, IGNORED) for tag in s.tags or [""] * len(s.tokens)]) for s in sentences
        ]
        places: defaultdict[tuple[str, ...], deque[int]] = defaultdict(deque)
        for i, tokens in enumerate(words):
            places[tokens].append(i)
        for tree in trees:
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
        """Return shuffled batches of sentences of similar length, of ``batch_tokens`` words at most.

        A little noise makes batches differ between epochs.
        """
        generator = np.random.default_rng([self.loop.seed, epoch])
        sizes = np.array([len(tokens) for tokens in self.words])
        batches: list[list[int]] = []
        words = self.loop.batch_tokens
        for index in np.argsort(sizes + generator.uniform(0, 1, len(sizes)), kind="stable").tolist():
            if words + sizes[index] > self.loop.batch_tokens:
                batches.append([])
                words = 0
            batches[-1].append(index)
            words += sizes[index]
        return [batches[i] for i in generator.permutation(len(batches))]

    def learning_rate(self, position: Position) -> float:
        """Rise linearly over :data:`WARMUP` of the run, then fall linearly to 0 at its end."""
        done = max(position.progress, (position.step + 0.5) / position.steps)
        return self.loop.learning_rate * ramp(done, WARMUP) * ramp(1 - done, 1 - WARMUP)

    def loss(self, batch: list[int]) -> Tensor:
        """Return the loss of a batch (see the module's docstring)."""
        words = make_batch(
            self._table, [self.words[i] for i in batch], end_boundary=self.encoder.config.end_boundary
        )
        states_BTD, positions_B = self.encoder(words), words.lengths_B
        losses: list[Tensor] = []
        if self.constituency is not None:
            parses, tags = [self.parses[i] for i in batch], [self.tags[i] for i in batch]
            losses.append(self.constituency.loss(states_BTD, positions_B, parses, tags))
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
        """Update the weights and their average."""
        super().step(position, batch)
        # A young average forgets faster, so that the random initial weights fade from it.
        decay = min(AVERAGE, (1 + position.step) / (10 + position.step))
        for name, parameter in self.module.named_parameters():
            self.averages[name].lerp_(parameter.detach(), 1 - decay)

    @contextlib.contextmanager
    def evaluation_mode(self) -> Iterator[None]:
        """Put the average in place of the weights."""
        with super().evaluation_mode():
            trained = {name: p.detach().clone() for name, p in self.module.named_parameters()}
            load_parameters(self.module, self.averages)
            yield
            load_parameters(self.module, trained)

    def evaluate(self) -> dict[str, float]:
        """Score the parsers on dev, per cent; return the scores and the mean of LAS and F1, which decides."""
        # New parsers each time: cached type vectors are outdated after a step.
        scores: dict[str, float] = {}
        if self.dependency is not None:
            scores |= self.score("dep", BiaffineParser(self.dependency, {}))
        if self.constituency is not None:
            scores |= self.score("const", SpanParser(self.constituency, {}))
        main = [scores[name] for name in ("las", "f1") if name in scores]
        return {**scores, "mean": sum(main) / len(main)}

    def score(self, kind: str, parser: Any) -> Scores:
        """Score a parser, dep or const, on dev."""
        sentences, trees = self.dev
        return score_dependency(parser, sentences) if kind == "dep" else score_constituency(parser, trees)

    def optimiser_state(self) -> dict[str, Tensor]:
        """Return Adam's moments and the average."""
        return super().optimiser_state() | {f"average.{name}": value for name, value in self.averages.items()}

    def load(self, checkpoint: Checkpoint) -> None:
        """Take up weights, moments and average."""
        super().load(checkpoint)
        for name, average in self.averages.items():
            average.copy_(checkpoint.optimiser[f"average.{name}"])
