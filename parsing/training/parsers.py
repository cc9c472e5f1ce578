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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from corpora.support.cli import config_to_json, log_to
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_text
from corpora.text import Sentence
from parsing.constituency.loss import margin_loss
from parsing.constituency.model import ConstituencyModel, SpanParser, fencepost_vectors, word_states
from parsing.dependency.model import BiaffineParser, DependencyModel
from parsing.models import parser_of
from parsing.networks.config import LoopConfig, ModelConfig, TrainConfig
from parsing.networks.device import pick_device
from parsing.networks.features import ParserVocabulary, TypeTable, make_batch
from parsing.networks.model_folder import CARD, ModelFolder, load_model_folder, save_model_folder
from parsing.training.checkpoints import Checkpoint, load_parameters
from parsing.training.loop import Loop, Plan
from parsing.training.scores import (
    Scores,
    read_dependencies,
    read_treebank,
    score_constituency,
    score_dependency,
)
from parsing.training.task import Position, Row, Task, ramp
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

KINDS = {"const": "constituency", "dep": "dependency"}
"""Folder of a parser in the output, and kind of its model folder."""
ABOUT = {
    "dep": (
        "Biaffine dependency parser (Dozat & Manning 2017)",
        "Words are given, tags are not used; relation subtypes count; `_punct`: with punctuation.",
    ),
    "const": (
        "Span parser (Kitaev & Klein 2018) with part-of-speech tags",
        "Brackets without function tags, punctuation and wrapper (`parsing/training/scores.py`).",
    ),
}
"""What a model is, and how it is scored."""

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
        self.models: dict[str, Model] = {}
        if treebanks.trees:
            names = labels_and_tags(treebanks.trees)
            self.constituency = ConstituencyModel(vocabulary, *names, config.encoder, config.spans)
            self.models["const"] = self.constituency
        if treebanks.sentences:
            self.dependency = DependencyModel(vocabulary, self.relations, config.encoder, config.arcs)
            if self.constituency is not None:
                self.dependency.encoder = self.constituency.encoder
            self.models["dep"] = self.dependency
        self.encoder = next(iter(self.models.values())).encoder
        self._table = TypeTable(vocabulary)
        self._rows = [self._table.rows(tokens) for tokens in words]
        self.sizes = [len(tokens) for tokens in words]
        module = nn.ModuleDict(self.models).to(device)
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
            found |= self.score("dep", BiaffineParser(self.dependency, {}))
        if self.constituency is not None:
            found |= self.score("const", SpanParser(self.constituency, {}))
        main = [found[name] for name in ("las", "f1") if name in found]
        return {**found, "mean": sum(main) / len(main)}

    def score(self, kind: str, parser: Any) -> Scores:
        """Of a parser, dep or const, on dev."""
        if kind == "dep":
            return score_dependency(parser, self.treebanks.dev_sentences)
        return score_constituency(parser, self.treebanks.dev_trees)

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


def train_parsers(config: TrainConfig) -> int:
    """Train, write the model folders, log the dev scores of what was stored; return the exit code.

    Raises:
        UserError: no or bad training data.
    """
    if bool(config.train_dep) != bool(config.dev_dep) or bool(config.train_const) != bool(config.dev_const):
        raise UserError("--train-dep and --dev-dep are given together, as --train-const and --dev-const")
    if not (config.train_dep or config.train_const):
        raise UserError("give --train-dep and --dev-dep, or --train-const and --dev-const, or all four")
    treebanks = Treebanks(
        sentences=read_dependencies(config.train_dep, tags="xpos") if config.train_dep else (),
        dev_sentences=read_dependencies(config.dev_dep) if config.dev_dep else (),
        trees=read_treebank(config.train_const) if config.train_const else (),
        dev_trees=read_treebank(config.dev_const) if config.dev_const else (),
    )
    device = pick_device(config.device)
    task = ParserTask(treebanks, config.model, config.loop, device)
    files = {"train": config.train_dep + config.train_const, "dev": config.dev_dep + config.dev_const}
    data = {role: {str(path): sha256_file(path) for path in paths} for role, paths in files.items()}
    options = config_to_json(config.loop)
    del options["checkpoint_s"]
    identity = {"model": config_to_json(config.model), "device": device.type}
    plan = Plan(
        epochs=config.loop.epochs, max_minutes=config.loop.max_minutes, checkpoint_s=config.loop.checkpoint_s
    )
    log = log_to(config.output / "training")
    loop = Loop(task, plan, config.output / "training", identity=options | identity | data)
    parameters = sum(parameter.numel() for parameter in task.module.parameters())
    log.info("%d sentences, %d words; %d parameters", len(task.sizes), sum(task.sizes), parameters)
    if code := loop.run():
        return code
    loop.load_best()
    name = config.name or config.output.resolve().name
    for kind, model in task.models.items():
        path = config.output / kind
        save_model_folder(
            path,
            kind=KINDS[kind],
            name=f"{name}-{kind}",
            version=config.version,
            config=model.config_json(),
            vocabulary=model.vocabulary_json(),
            tensors=model.state_dict(),
        )
        # The stored weights are scored, not those in memory: float16 rounds them.
        folder = load_model_folder(path, KINDS[kind])
        scores = task.score(kind, parser_of(folder))
        write_text(path / CARD, "\n".join(_card(kind, folder, data, scores, loop.position.best)))
        log.info("%s: %s", path, ", ".join(f"{key} {value:.2f}" for key, value in scores.items()))
    return 0


def _card(
    kind: str, folder: ModelFolder, data: Mapping[str, Mapping[str, str]], scores: Scores, best: Row
) -> Iterator[str]:
    """The lines of a model card: what it is, data, scores."""
    about, rules = ABOUT[kind]
    parameters = sum(tensor.numel() for tensor in folder.tensors.values())
    predicted = [names for names in ("relations", "labels", "tags") if names in folder.vocabulary]
    sizes = ", ".join(f"{len(folder.names(names))} {names}" for names in predicted)
    yield from (f"# {folder.identity['name']}, version {folder.identity['version']}", "")
    yield f"{about} over a word and character BiLSTM; {parameters:,} parameters, {sizes}."
    yield from ("", "## Data", "")
    for role, files in data.items():
        for path, digest in files.items():
            yield f"- {role}: `{'/'.join(Path(path).parts[-2:])}` (sha256 {digest[:16]})"
    yield from ("", "## Scores on dev, in per cent", "", f"| {' | '.join(scores)} |")
    yield "|---" * len(scores) + "|"
    yield f"| {' | '.join(f'{value:.2f}' for value in scores.values())} |"
    yield from ("", f"{rules} Epoch {best['epoch'] + 1} was the best on the same sentences.", "")
