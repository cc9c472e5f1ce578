"""Trains a dependency parser, a constituency parser, or both over one sentence encoder.

A sentence may have arcs, a constituency tree, or both. The loss of a batch is

    mean margin loss of its trees + 5 (mean cross-entropy of tags) + 10 (mean −log p(head) − log p(relation))

(:meth:`ConstituencyModel.loss`, :meth:`DependencyModel.loss`). If only the dependency parser is trained, the
last term has the weight 1. Adam's learning rate rises, then falls to 0. The weights that are scored and
stored are an exponential moving average.

Legend of dimension suffixes: B sentences, T positions, D encoder output.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from corpora.text import Sentence
from parsing.networks.config import ModelConfig, ParserLoopConfig
from parsing.networks.constituency import NO_TAG, ConstituencyModel, SpanParser
from parsing.networks.dependency import BiaffineParser, DependencyModel
from parsing.networks.features import ParserVocabulary, TypeTable, make_batch
from parsing.training.scores import score_parser
from parsing.trees.arrays import labels_and_tags, to_parse
from parsing.trees.batch import ConstituencyParse, Int, ids_of
from runtime.training_loop import Schedule
from runtime.training_state import Position, TrainingState
from runtime.training_step import GradientDescent, StepMetrics, Steps, ramp

ARC_SCALE = 10.0
"""The weight of the loss of arcs, which is a mean over words; the margin loss is a sum over spans."""
BETAS = (0.9, 0.98)
"""Adam's decay rates. With 0.9 for the squares, as in Dozat & Manning, the F1 of spans was lower."""
WARMUP = 0.02
"""The fraction of the run over which the learning rate rises."""
CLIP = 5.0
"""The largest norm of the gradient."""
AVERAGE = 0.999
"""The decay per step of the average of the weights."""
Ids: TypeAlias = dict[str, int]


class ParserTrainer:
    """Trains the parsers for which there are data; a batch is a list of indices of sentences.

    A sentence with arcs and a tree of the same words become one training sentence. If several have the same
    words, the first sentence is joined with the first tree, the second with the second, and so on.

    Args:
        sentences: training sentences with arcs; may be empty.
        trees: training sentences with tags and spans; may be empty.
        dev: sentences to choose the best weights on, with arcs and universal tags (``dep``), with trees
            (``const``).
        config: the sizes of the networks.
        loop: the options of training, whose seed also seeds torch.
        device: where to train; None is the CPU.
    """

    def __init__(
        self,
        sentences: Sequence[Sentence],
        trees: Sequence[Sentence],
        dev: Mapping[str, Sequence[Sentence]],
        config: ModelConfig,
        loop: ParserLoopConfig,
        device: torch.device | None = None,
    ) -> None:
        torch.set_num_threads(1)  # a second thread gains little, and the last bits may depend on it
        torch.manual_seed(loop.seed)
        self.dev, self.loop = dev, loop
        relations = sorted({relation for s in sentences for relation in s.relations or ()})
        labels, tags = labels_and_tags(trees)
        self._set_gold(sentences, trees, *map(ids_of, (relations, labels, tags)))
        vocabulary = ParserVocabulary.build(self.words, min_count=config.min_count)
        self.constituency = self.dependency = None
        if trees:
            self.constituency = ConstituencyModel(vocabulary, labels, tags, config.encoder, config.spans)
        if sentences:
            self.dependency = DependencyModel(vocabulary, relations, config.encoder, config.arcs)
        models = {"const": self.constituency, "dep": self.dependency}
        self.models = {kind: model for kind, model in models.items() if model is not None}
        self.encoder = next(iter(self.models.values())).encoder
        self.encoder.dropout = loop.dropout
        for model in self.models.values():
            model.encoder = self.encoder
        self._table = TypeTable(vocabulary)
        for tokens in self.words:  # in a fixed order, so that a resumed run adds up in the same order
            self._table.rows(tokens)
        module = nn.ModuleDict(self.models).to(device)
        self.descent: GradientDescent[list[int]] = GradientDescent(
            module,
            torch.optim.Adam(module.parameters(), betas=BETAS, fused=True),
            lambda batch: {"loss": self.loss(batch)},
            self.learning_rate,
            clip=CLIP,
            # A checkpoint keeps the random state of the CPU alone.
            seed=None if device is None or device.type == "cpu" else loop.seed,
        )
        self.steps: Steps[list[int], list[int]] = Steps(self.batches, lambda batch: batch)
        self.schedule = Schedule(epochs=loop.epochs, max_minutes=loop.max_minutes, select="mean")
        averages = {name: p.detach().clone() for name, p in module.named_parameters()}
        self.state = TrainingState(module, self.descent, self.schedule.begin(self.steps), averages)

    def _set_gold(
        self, sentences: Sequence[Sentence], trees: Sequence[Sentence], relations: Ids, labels: Ids, tags: Ids
    ) -> None:
        """Set the words and gold annotation of each training sentence; those with arcs come first."""
        self.words = [s.tokens for s in sentences]
        self.heads = [np.array(s.heads, np.int64) for s in sentences]
        self.relations = [np.array([relations[r] for r in s.relations or ()], np.int64) for s in sentences]
        self.parses: list[ConstituencyParse | None] = [None] * len(sentences)
        self.tags: list[Int] = [
            np.array([tags.get(tag, NO_TAG) for tag in s.tags or [""] * len(s.tokens)]) for s in sentences
        ]
        numbers_of_words: defaultdict[tuple[str, ...], deque[int]] = defaultdict(deque)
        for number, words in enumerate(self.words):
            numbers_of_words[words].append(number)
        for tree in trees:
            parse = to_parse(tree, labels, tags)
            if numbers_of_words[tree.tokens]:
                number = numbers_of_words[tree.tokens].popleft()
                self.parses[number], self.tags[number] = parse, parse.tags
            else:
                self.words.append(tree.tokens)
                self.parses.append(parse)
                self.tags.append(parse.tags)

    def batches(self, epoch: int) -> list[list[int]]:
        """Return the batches of an epoch, shuffled, with sentences of similar length in each.

        Noise is added to the lengths, so that the batches differ between epochs.
        """
        generator = np.random.default_rng([self.loop.seed, epoch])
        lengths = np.array([len(words) for words in self.words])
        by_length = np.argsort(lengths + generator.uniform(0, 1, len(lengths)), kind="stable")
        batches: list[list[int]] = []
        batch_tokens = self.loop.batch_tokens
        for number in by_length.tolist():
            if batch_tokens + lengths[number] > self.loop.batch_tokens:
                batches.append([])
                batch_tokens = 0
            batches[-1].append(number)
            batch_tokens += lengths[number]
        return [batches[i] for i in generator.permutation(len(batches))]

    def learning_rate(self, position: Position) -> float:
        """Return the learning rate, which rises linearly over :data:`WARMUP` of the run, then falls to 0."""
        progress = max(position.progress, (position.step + 0.5) / position.steps)
        return self.loop.learning_rate * ramp(progress, WARMUP) * ramp(1 - progress, 1 - WARMUP)

    def loss(self, batch: list[int]) -> Tensor:
        """Return the loss of a batch, whose equation is in the module's docstring."""
        end_boundary = self.encoder.config.end_boundary
        words = make_batch(self._table, [self.words[i] for i in batch], end_boundary=end_boundary)
        states_BTD, positions_B = self.encoder(words), words.lengths_B
        losses: list[Tensor] = []
        if self.constituency is not None:
            parses, tags = [self.parses[i] for i in batch], [self.tags[i] for i in batch]
            losses.append(self.constituency.loss(states_BTD, positions_B, parses, tags))
        rows = [b for b, i in enumerate(batch) if i < len(self.heads)]  # those with arcs
        if self.dependency is not None and rows:
            heads_N, relations_N = (
                torch.from_numpy(np.concatenate([gold[batch[b]] for b in rows])).to(states_BTD.device)
                for gold in (self.heads, self.relations)
            )
            lengths_B = positions_B[rows] - self.dependency.end_positions
            arc_loss = self.dependency.loss(states_BTD[rows], lengths_B, heads_N, relations_N)
            losses.append(ARC_SCALE * arc_loss if self.constituency is not None else arc_loss)
        return sum(losses[1:], start=losses[0])

    def step(self, position: Position, batch: list[int]) -> StepMetrics:
        """Update the weights and their average."""
        metrics = self.descent.step(position, batch)
        # At first the average decays faster, so that the random initial weights vanish from it.
        decay = min(AVERAGE, (1 + position.step) / (10 + position.step))
        for name, parameter in self.state.module.named_parameters():
            self.state.averages[name].lerp_(parameter.detach(), 1 - decay)
        return metrics

    def validate(self) -> dict[str, float]:
        """Return the scores on dev in per cent; ``mean``, of LAS and F1, decides which weights are best."""
        # Made anew each time, because a parser caches type vectors, which a step makes outdated.
        scores: dict[str, float] = {}
        if self.dependency is not None:
            scores |= score_parser("dep", BiaffineParser(self.dependency), self.dev["dep"])
        if self.constituency is not None:
            scores |= score_parser("const", SpanParser(self.constituency), self.dev["const"])
        main_scores = [scores[name] for name in ("las", "f1") if name in scores]
        return {**scores, "mean": sum(main_scores) / len(main_scores)}
