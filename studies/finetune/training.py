"""Fine-tune towers: heads on sentence vectors, their losses and scores, and the training loop.

The trainers of sentence-transformers and transformers pickle the states of the optimiser and of random
generators, and do not promise the same weights after a kill. :func:`fit`, which is based on
:mod:`runtime.training_loop`, does: step s seeds torch with a function of (seed, s) and takes the batch of
its number from a stream, so that the state is only the weights, Adam's moments and s.

Legend of dimension suffixes: N examples, B pairs, D the tower's embedding size, C classes.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from multiview.names.opened import OpenedEncoder
from runtime.cli import LOGGER
from runtime.errors import UserError
from runtime.files import atomic_path
from runtime.progress import progress
from runtime.training_loop import Schedule, TrainingLoop
from runtime.training_state import TrainingState, Values
from runtime.training_step import GradientDescent, Steps, ramp
from senteval_runner.protocol.correlation import pearson
from senteval_runner.towers import Concatenation, Pooling
from senteval_runner.towers.transformer import Tower, load_tower
from studies.finetune.examples import Draw, Examples, Stream

log = logging.getLogger(LOGGER)
Features = Concatenation | Literal["one", "cosine"]
"""The input of a head: features of a pair of vectors, one vector, or the cosine of two."""
_VECTORS_PER_FEATURE = {"one": 1, "uv": 2, "diff": 1, "prod": 1}
PAIR_BATCH = 16
"""Pairs per step of :func:`tune_pairs` (BURT, UNI)."""
HEADS = "heads.safetensors"
"""The file of a model folder with the weights of its heads."""
EMBED_BATCH = 64
"""Texts or pairs that are embedded at a time without gradients."""


@dataclass(frozen=True)
class TrainedTask:
    """A task that is trained."""

    stream: Stream
    """The batches of examples; the stream has the name of the task."""
    loss: Callable[[Examples], Tensor]
    """Returns the loss of a batch."""


@dataclass(frozen=True, kw_only=True)
class TuningConfig:
    """How a model is trained by AdamW; the defaults are those of BURT."""

    learning_rate: float
    """The learning rate at its peak."""
    steps: int
    seed: int
    """Seed of dropout."""
    evaluate_every: int = 0
    """Steps between two evaluations; 0 evaluates only before the first step and after the last."""
    select: str = ""
    """The score whose highest value decides which weights are kept; if empty, the last weights are kept."""
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = 1e-9
    weight_decay: float = 0.0
    """Decoupled weight decay, per step."""
    warmup: float = 0.1
    """Fraction of all steps in which the learning rate rises linearly; then it falls linearly to 0. With 0 it
    is constant."""

    def rate(self, step: int) -> float:
        """Return the learning rate at ``step`` s, from 0.

        With S steps, w of them for warm-up, it is peak · (s+1)/w while s < w, then peak · (S−s)/(S−w).
        """
        if not self.warmup:
            return self.learning_rate
        warmup_steps = max(1, round(self.warmup * self.steps))
        falling_steps = self.steps - warmup_steps
        return self.learning_rate * ramp(step + 1, warmup_steps) * ramp(self.steps - step, falling_steps)


def _losses(task_cycle: Sequence[TrainedTask], step: int) -> dict[str, Tensor]:
    """Return the loss of the step's task on the next batch of its stream, by name."""
    rounds, position = divmod(step, len(task_cycle))
    task = task_cycle[position]
    earlier_batches = rounds * task_cycle.count(task) + task_cycle[:position].count(task)
    return {f"loss/{task.stream.name}": task.loss(task.stream.batch(earlier_batches))}


def fit(
    model: nn.Module,
    task_cycle: Sequence[TrainedTask],
    config: TuningConfig,
    evaluate: Callable[[], Values],
    folder: Path,
) -> list[Values]:
    """Train ``model`` in place, and return one row of scores per evaluation.

    Args:
        model: tower and heads.
        task_cycle: the tasks; step s trains ``task_cycle[s % len(task_cycle)]``.
        config: options of the training.
        evaluate: returns scores by name, as fractions. It is called in eval mode without gradients, also
            before the first step and after the last.
        folder: where the state of training is saved; a state that is there is resumed.

    Raises UserError if the loss or gradient is not finite, or if the saved state belongs to another run, and
    KeyboardInterrupt if Ctrl-C or SIGTERM has stopped the training, whose state is then saved.
    """
    names = [task.stream.name for task in task_cycle]

    def validate() -> Values:
        """Score the weights, and log the scores."""
        scores = evaluate()
        numbers = [f"{name} {value:.4f}" for name, value in scores.items() if isinstance(value, float)]
        log.info("%s", "  ".join([f"step {state.position.step:>6,}", *numbers]))
        return scores

    optimiser = torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        betas=config.betas,
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,  # takes 13 ms, not 93 ms, for MiniLM's 22M weights on one thread
    )
    descent: GradientDescent[int] = GradientDescent(
        model,
        optimiser,
        partial(_losses, task_cycle),
        lambda position: config.rate(position.step),
        seed=config.seed,
    )
    steps: Steps[int, int] = Steps(lambda epoch: range(config.steps), lambda number: number)
    schedule = Schedule(
        evaluate_first=True,
        evaluate_every=config.evaluate_every or config.steps,
        select=config.select,
        start_may_win=False,
    )
    state = TrainingState(model, descent, schedule.begin(steps))
    threads = torch.get_num_threads()
    identity = {"cycle": names, "steps": config.steps, "seed": config.seed, "threads": threads}
    loop = TrainingLoop(state, steps, schedule, folder, identity=identity)
    if loop.run(descent.step, validate):
        raise KeyboardInterrupt
    loop.load_best()
    omitted = ("kind", "epoch", "minutes")  # no scores
    return [{name: value for name, value in row.items() if name not in omitted} for row in loop.history]


def combine(u_BD: Tensor, v_BD: Tensor, concatenation: Concatenation) -> Tensor:
    """Return the features of pairs of vectors that ``concatenation`` names, concatenated, [B, ·D] (BURT).

    ``uv`` is [u; v], ``diff`` is |u−v|, ``prod`` is u∗v.
    """
    blocks: list[Tensor] = []
    for name in concatenation.split("-"):
        if name == "uv":
            blocks += [u_BD, v_BD]
        else:
            blocks.append((u_BD - v_BD).abs() if name == "diff" else u_BD * v_BD)
    return torch.cat(blocks, dim=-1)


class Head(nn.Module):
    """The head of one task: a linear layer with random initial weights, or the cosine of two vectors.

    Args:
        dim: the tower's embedding size.
        outputs: number of classes, or 1 for a single value.
        features: the input of the layer; "one" is a single vector, of a text or of a pair that the tower
            reads as one text.
        seed: of the initial weights, which depend on nothing else.
        pooling: pooling of the tower; None is its own.
    """

    def __init__(
        self, dim: int, outputs: int, features: Features, seed: int, pooling: Pooling | None = None
    ) -> None:
        super().__init__()
        self.outputs, self.pooling = outputs, pooling
        self.features: Features = features
        if features != "cosine":
            vectors = sum(_VECTORS_PER_FEATURE[part] for part in features.split("-"))
            self.linear = seeded_linear(vectors * dim, outputs, seed)

    def forward(self, tower: Tower, examples: Examples) -> Tensor:
        """Return logits [B, C], or one value per example [B]; both texts of a pair are in one batch."""
        if self.features == "one":
            texts: Sequence[Any] = examples.first if examples.second is None else examples.pairs
            out: Tensor = self.linear(tower.embed(texts, self.pooling))
        else:
            u_BD, v_BD = tower.embed(examples.texts, self.pooling).split(len(examples))
            if self.features == "cosine":
                return functional.cosine_similarity(u_BD, v_BD)
            out = self.linear(combine(u_BD, v_BD, self.features))
        return out[:, 0] if self.outputs == 1 else out

    def loss(self, tower: Tower, examples: Examples) -> Tensor:
        """Return the loss, a mean over the examples.

        For classes it is the cross-entropy −log softmax(logits)[target], for a cosine the squared error
        (cosine − t)², for one logit x the binary cross-entropy −t log σ(x) − (1−t) log(1−σ(x)).
        """
        out = self(tower, examples)
        target = torch.from_numpy(examples.target).to(out.device)
        if self.outputs > 1:
            return functional.cross_entropy(out, target)
        if self.features == "cosine":
            return functional.mse_loss(out, target)
        return functional.binary_cross_entropy_with_logits(out, target.float())

    def score(self, tower: Tower, examples: Examples) -> float:
        """Return the accuracy or, if targets are scores, Pearson's correlation with them."""
        out = in_batches(
            [len(text) for text in examples.first], lambda rows: self(tower, examples.take(rows))
        )
        if examples.target.dtype == np.float32:
            return pearson(out, examples.target)
        classes = out.argmax(axis=1) if self.outputs > 1 else out > 0
        return float(np.mean(classes == examples.target))


def in_batches(lengths: Sequence[int], compute: Callable[[NDArray[np.int64]], Tensor]) -> NDArray[np.float32]:
    """Return a result [N, ...] whose rows are computed in batches, without gradients.

    ``compute`` maps the indices of the rows of a batch to these rows; ``lengths`` [N] are the lengths of
    their texts. Texts of similar length are in one batch, because padding takes as long as words.
    """
    order_N = np.argsort(lengths, kind="stable")
    blocks = []
    with torch.inference_mode(), progress(total=len(order_N), unit="text", description="score") as bar:
        for first in range(0, len(order_N), EMBED_BATCH):
            rows = order_N[first : first + EMBED_BATCH]
            blocks.append(compute(rows).float().cpu().numpy())
            bar.update(len(rows))
    out: NDArray[np.float32] = np.concatenate(blocks)[np.argsort(order_N)]
    return out


def is_tunable(model: OpenedEncoder) -> bool:
    """Tell whether a model is a single transformer; as in BURT and UNI, only these are fine-tuned."""
    return [member.family for member in model.members] in (["sentence-transformers"], ["pooled"])


def tunable_tower(model: OpenedEncoder, **options: Any) -> Tower:
    """Load a new copy of a transformer for training; ``options`` are those of ``load_tower``.

    Raises UserError if the model is not a single transformer.
    """
    if not is_tunable(model):
        raise UserError(f"{model.full_name!r} is not one transformer: nothing to tune")
    name = model.members[0].parsed
    pooling: Any = name.prefix or None
    return load_tower(name.base, pooling=pooling, **options)


def tune_pairs(
    tower: Tower, draw: Draw, name: str, *, epochs: int, learning_rate: float, seed: int, folder: Path
) -> Head:
    """Train a tower and a new head of two classes on [u; v; |u−v|] as BURT and UNI do, and return the head.

    Args:
        tower: the tower; its weights are changed.
        draw: gives the pairs of a pass.
        name: name of the task.
        epochs: passes over the pairs.
        learning_rate: the learning rate at its peak.
        seed: of the head, the order of the pairs and dropout.
        folder: where the state of training is saved; a state that is there is resumed.
    """
    head = Head(tower.dim, 2, "uv-diff", seed).to(next(tower.parameters()).device)
    stream = Stream(draw, PAIR_BATCH, seed, name)
    steps = epochs * stream.batches_per_pass
    config = TuningConfig(learning_rate=learning_rate, steps=steps, seed=seed)
    net = nn.ModuleDict({"tower": tower, name: head})
    fit(net, [TrainedTask(stream, partial(head.loss, tower))], config, dict, folder)
    return head


def seeded_linear(inputs: int, outputs: int, seed: int) -> nn.Linear:
    """Return a linear layer whose weights depend on ``seed`` alone; torch's generator keeps its state."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(inputs, outputs)


def save_tuned(tower: Tower, heads: nn.Module, folder: Path) -> None:
    """Write a tower as a sentence-transformers folder, and in it the weights of heads in :data:`HEADS`."""
    tower.cpu().save(folder)
    weights = {name: tensor.cpu().contiguous() for name, tensor in heads.state_dict().items()}
    with atomic_path(folder / HEADS) as temporary:
        save_file(weights, temporary)
