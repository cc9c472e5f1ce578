"""Train all folds and regularisers of a task at once, each as if it were trained alone.

Nearly all the time of one-model-at-a-time training is per-step overhead of tiny models. Every fit starts
from the same seed, so fits with equally many rows share initial weights, permutations and dropout masks;
they differ in rows and L2 only. :func:`train_fits` groups them, trains a group with one product per step,
stops each model on its own development accuracy and drops finished models.

Shapes: F folds, R regularisers, B rows of a batch, D features with the constant one last, C classes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import numpy as np
import torch
from torch import Tensor

from corpora.support.errors import UserError
from senteval_runner.protocol.config import Protocol
from senteval_runner.protocol.features import Int
from senteval_runner.protocol.heads import STATES, Head, flat, update

# Bytes of one step's gathered batches: larger ones leave the cache before the second product.
GROUP_BYTES = 2 << 20


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Rows to train on and rows for early stopping; one model per regulariser."""

    train: Int
    """Rows of the design matrix, in the order the permutations index."""
    dev: Int
    """Rows whose accuracy decides when to stop and which weights to keep."""
    l2: tuple[float, ...]
    """Weight decay of each model."""
    drawn: int = 0
    """Length of the permutation drawn before those of the epochs (for the 5 % split); 0 draws none."""


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Result of one :class:`Fit`, per regulariser."""

    accuracy: list[float]
    """Best development accuracy, in [0, 1]."""
    rounds: list[int]
    """Rounds trained."""
    weights: list[list[Tensor]] | None
    """The best parameters [k, in] of each model, if they were asked for."""


def split_fit(rows: Int, l2: float, seed: int, fraction: float = 0.05) -> Fit:
    """The final fit of the cross-validated tasks: a random 5 % of ``rows`` decide when to stop.

    Raises:
        UserError: 5 % of the rows are less than one row.
    """
    order = np.random.RandomState(seed).permutation(len(rows))
    cut = int(fraction * len(rows))
    if not cut:
        raise UserError(f"{len(rows)} training rows are too few: {fraction:.0%} of them decide when to stop")
    return Fit(train=rows[order[cut:]], dev=rows[order[:cut]], l2=(l2,), drawn=len(rows))


def make_head(dim: int, classes: int, protocol: Protocol) -> Head:
    """The classifier a protocol asks for."""
    return Head(dim, classes, protocol.nhid, protocol.dropout)


def train_fits(
    x_ND: Tensor,
    y_N: Int,
    fits: Sequence[Fit],
    classes: int,
    protocol: Protocol,
    seed: int,
    *,
    keep_weights: bool = False,
) -> list[Fitted]:
    """Train every fit until its own early stopping ends it.

    Args:
        x_ND: design matrix, float32, last column all ones (:func:`senteval_runner.protocol.features.design`).
        y_N: class ids.
        fits: what to train; fits of equal lengths are trained together.
        classes: number of classes C.
        protocol: optimiser, batch size, early stopping, hidden layer.
        seed: every fit's own seed.
        keep_weights: return each model's best weights.
    """
    onehot = torch.nn.functional.one_hot(torch.as_tensor(np.asarray(y_N)), classes).float()
    head = make_head(x_ND.shape[1] - 1, classes, protocol)
    size = max(1, GROUP_BYTES // (protocol.batch_size * x_ND.shape[1] * 4))
    groups = _groups(fits, size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        weights = head.initial()
        drawn = torch.get_rng_state()  # dropout continues from here

    def train(group: list[int], stopped: Event) -> list[Fitted]:
        trainer = _GroupTrainer(x_ND, onehot, [fits[i] for i in group], weights, head, protocol, keep_weights)
        trainer.generator.set_state(drawn)
        return trainer.run(np.random.RandomState(seed), stopped)

    results: dict[int, Fitted] = {}
    for group, fitted in zip(groups, _side_by_side(train, groups), strict=True):
        results.update(zip(group, fitted, strict=True))
    return [results[i] for i in range(len(fits))]


def _side_by_side(
    train: Callable[[list[int], Event], list[Fitted]], groups: Sequence[list[int]]
) -> list[list[Fitted]]:
    """Train groups in parallel, one thread each, because their products are too small to split.

    The order of groups changes no score. A single group keeps all of torch's threads.
    """
    threads = min(torch.get_num_threads(), len(groups))
    stopped = Event()
    if threads == 1 or len(groups) == 1:
        return [train(group, stopped) for group in groups]
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        return list(pool.map(train, groups, itertools.repeat(stopped)))
    finally:
        stopped.set()  # after Ctrl-C the threads end after their round
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


def _groups(fits: Sequence[Fit], size: int) -> list[list[int]]:
    """Groups of fits that share random streams, as indices; of even size, at most ``size``."""
    alike: dict[tuple[int, int, int], list[int]] = {}
    for index, fit in enumerate(fits):
        alike.setdefault((len(fit.train), fit.drawn, len(fit.l2)), []).append(index)
    groups = []
    for members in alike.values():
        parts = -(-len(members) // size)
        groups += [list(map(int, part)) for part in np.array_split(members, parts)]
    return groups


class _GroupTrainer:
    """Trains fits with one random stream; ``folds`` and ``model_FR`` say which are still in training."""

    def __init__(
        self,
        x_ND: Tensor,
        onehot_NC: Tensor,
        fits: Sequence[Fit],
        weights: Sequence[Tensor],
        head: Head,
        protocol: Protocol,
        keep_weights: bool,
    ) -> None:
        self.x, self.onehot, self.fits, self.head = x_ND, onehot_NC, fits, head
        self.protocol, self.keep_weights = protocol, keep_weights
        self.labels = onehot_NC.argmax(1)
        F, R = len(fits), len(fits[0].l2)
        self.generator = torch.Generator()
        self.params = [p.repeat(F, R, 1, 1) for p in weights]
        self.state = [[torch.zeros_like(p) for _ in range(STATES[protocol.optim])] for p in self.params]
        self.folds = list(range(F))
        self.model_FR = np.tile(np.arange(R), (F, 1))
        self.best_FR = np.full((F, R), -1, dtype=np.int64)
        self.misses_FR = np.zeros((F, R), dtype=np.int64)
        self.rounds_FR = np.zeros((F, R), dtype=np.int64)
        self.alive_FR = np.ones((F, R), dtype=bool)
        self.best_weights: dict[tuple[int, int], list[Tensor]] = {}
        self.step = 0
        self._refresh()

    def _refresh(self) -> None:
        """Derive train rows [F, n], L2 [F * R] and numpy views of the models still in training."""
        self.train_Fn = torch.as_tensor(np.stack([self.fits[f].train for f in self.folds]))
        l2 = np.array([fit.l2 for fit in self.fits], dtype=np.float32)
        self.l2 = l2[np.array(self.folds)[:, None], self.model_FR].reshape(-1)
        self.flat = [
            (flat(w), [flat(s) for s in state]) for w, state in zip(self.params, self.state, strict=True)
        ]

    def run(self, stream: np.random.RandomState, stopped: Event) -> list[Fitted]:
        """Train round by round until every model has stopped, or ``stopped`` is set."""
        if self.fits[0].drawn:
            stream.permutation(self.fits[0].drawn)
        epochs = 0
        while self.alive_FR.any() and epochs <= self.protocol.max_epoch and not stopped.is_set():
            for _ in range(self.protocol.epoch_size):
                self._epoch(stream)
            epochs += self.protocol.epoch_size
            self._stop_or_keep(self._dev_correct())
            self._compact()
        return [self._result(f, fit) for f, fit in enumerate(self.fits)]

    def _result(self, f: int, fit: Fit) -> Fitted:
        models = range(len(fit.l2))
        return Fitted(
            accuracy=[int(self.best_FR[f, r]) / len(fit.dev) for r in models],
            rounds=[int(self.rounds_FR[f, r]) for r in models],
            weights=[self.best_weights[f, r] for r in models] if self.keep_weights else None,
        )

    def _epoch(self, stream: np.random.RandomState) -> None:
        F, n = self.train_Fn.shape
        rows_Fn = self.train_Fn[:, torch.as_tensor(stream.permutation(n))]
        y_FCn = self.onehot.index_select(0, rows_Fn.view(-1)).view(F, n, -1).transpose(1, 2).contiguous()
        size = self.protocol.batch_size
        for rows_FB, y_FCB in zip(rows_Fn.split(size, dim=1), y_FCn.split(size, dim=2), strict=True):
            x_FBD = self.x.index_select(0, rows_FB.reshape(-1)).view(F, -1, self.x.shape[1])
            self.step += 1
            gradients = self.head.gradients(x_FBD, y_FCB, self.params, self.generator)
            for (w, state), gradient in zip(self.flat, gradients, strict=True):
                update(self.protocol.optim, w, flat(gradient), state, self.l2, self.step)

    def _dev_correct(self) -> Int:
        """Number of correct development rows of each model still in training: [F, R]."""
        correct = []
        for position, f in enumerate(self.folds):
            rows = torch.as_tensor(self.fits[f].dev)
            logits_RCB = self.head.logits(
                self.x.index_select(0, rows)[None], [p[position : position + 1] for p in self.params]
            )[0]
            correct.append((logits_RCB.argmax(1) == self.labels[rows]).sum(1).numpy())
        return np.stack(correct)

    def _stop_or_keep(self, correct_FR: Int) -> None:
        """Keep better weights, or stop a model at its (tenacity + 1)-th round without improvement."""
        for position, f in enumerate(self.folds):
            for slot, r in enumerate(self.model_FR[position].tolist()):
                if not self.alive_FR[f, r]:
                    continue
                self.rounds_FR[f, r] += 1
                if correct_FR[position, slot] > self.best_FR[f, r]:
                    self.best_FR[f, r] = correct_FR[position, slot]
                    if self.keep_weights:
                        self.best_weights[f, r] = [p[position, slot].clone() for p in self.params]
                elif self.misses_FR[f, r] >= self.protocol.tenacity:
                    self.alive_FR[f, r] = False
                else:
                    self.misses_FR[f, r] += 1

    def _compact(self) -> None:
        """Drop finished folds, pack the remaining models of each fold to the left, cut spare columns."""
        alive = self.alive_FR[np.array(self.folds)[:, None], self.model_FR]
        width = int(alive.sum(1).max())
        positions = np.flatnonzero(alive.any(1))
        if width == 0 or (width == alive.shape[1] and len(positions) == len(alive)):
            return
        slots = np.argsort(~alive[positions], axis=1, kind="stable")[:, :width]
        pick = torch.as_tensor(positions[:, None]), torch.as_tensor(slots)
        self.params = [p[pick].contiguous() for p in self.params]
        self.state = [[s[pick].contiguous() for s in states] for states in self.state]
        self.model_FR = self.model_FR[positions[:, None], slots]
        self.folds = [self.folds[position] for position in positions]
        self._refresh()


def predict(x_ND: Tensor, rows: Int, weights: list[Tensor], head: Head) -> Int:
    """Class ids that a model with parameters [k, in] gives to ``rows``."""
    logits = head.logits(x_ND[torch.as_tensor(rows)][None], [w[None, None] for w in weights])
    classes: Int = logits[0, 0].argmax(0).numpy()
    return classes
