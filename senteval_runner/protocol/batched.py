"""Train all folds and regularisers of a task at once, each as if it were trained alone.

Training one tiny model at a time spends nearly all its time on the overhead of each step. Every fit starts
from the same seed, so fits with equally many rows share initial weights and permutations; they differ only in
rows and L2. :func:`train_fits` groups them, trains a group with one product per step and gradients by hand,
stops each model by its own development accuracy and drops finished models.

Shapes: F folds, R regularisers, B rows of a batch, D features with the constant one as the last (its weight
is the bias), H hidden units, C classes. A head's parameters are float32 [F, R, k, in], so that a fold's rows
are gathered once for all its regularisers and one batched product serves them. Weights are laid out like
``nn.Linear``'s and activations are [k, B], because [R*k, D] @ [D, B] runs faster than its transposes, and a
softmax along k much faster than along a last dimension of 2.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from runtime.compiled import compiled
from runtime.device import Products
from runtime.errors import UserError
from senteval_runner.protocol.config import Protocol
from senteval_runner.protocol.features import Float, Int

GROUP_BYTES = 2 << 20
"""Largest batches that one step gathers: larger ones leave the cache before the second product."""
MIN_ONEDNN_WEIGHTS = 16_384
"""Weights per fold from which oneDNN's product is faster, where oneDNN is the faster library."""


def fold_products(a_FKM: Tensor, b_FMN: Tensor, weights: int) -> Tensor:
    """Return a @ b for each fold, [F, K, N]; the number of ``weights`` per fold decides on the library."""
    products = Products.of(a_FKM)
    if a_FKM.shape[1] < 4 or weights < MIN_ONEDNN_WEIGHTS or not products.onednn:
        return torch.bmm(a_FKM, b_FMN)
    folds = list(map(products.product, a_FKM, b_FMN))
    return folds[0][None] if len(folds) == 1 else torch.stack(folds)


def _linear(x_FBD: Tensor, w_FRkD: Tensor) -> Tensor:
    """Return the linear maps of a fold's rows for all regularisers, in one product: [F, R, k, B]."""
    F, R, k, D = w_FRkD.shape
    return fold_products(w_FRkD.view(F, R * k, D), x_FBD.transpose(1, 2), R * k * D).view(F, R, k, -1)


def _weight_gradient(delta_FRkB: Tensor, x_FBD: Tensor) -> Tensor:
    """Return the gradient of :func:`_linear` with respect to its weights: [F, R, k, D]."""
    F, R, k, B = delta_FRkB.shape
    return fold_products(delta_FRkB.view(F, R * k, B), x_FBD, R * k * x_FBD.shape[2]).view(F, R, k, -1)


# A head is ``Linear(d, C)``, or with hidden units ``Linear(d, H), Sigmoid, Linear(H, C)``. Its parameters are
# ``[W [F, R, C, D]]`` or ``[W1 [F, R, H, D], W2 [F, R, C, H + 1]]``, biases as last columns.


def initial_head(*sizes: int) -> list[Tensor]:
    """Draw the parameters [k, in] of one classifier from torch's generator, as ``nn.Linear`` draws them.

    ``sizes`` are those of the input, of the hidden layer if there is one, and of the output.
    """
    layers = [nn.Linear(dim, out) for dim, out in itertools.pairwise(sizes)]
    return [torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1) for layer in layers]


def logits(x_FBD: Tensor, params: Sequence[Tensor]) -> Tensor:
    """Return the scores of classes, [F, R, C, B]."""
    z_FRkB = _linear(x_FBD, params[0])
    return z_FRkB if len(params) == 1 else _output(torch.sigmoid(z_FRkB), params[1])


def _output(s_FRHB: Tensor, w_FRCh: Tensor) -> Tensor:
    """Return W2 s + b2, [F, R, C, B]."""
    return w_FRCh[..., :-1] @ s_FRHB + w_FRCh[..., -1:]


def gradients(x_FBD: Tensor, y_FCB: Tensor, params: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradient of every classifier's own mean cross-entropy, in the parameters' shapes.

    δ2 = (softmax - y)/B; dW2 = δ2 sᵀ; δ1 = (W2ᵀ δ2) ∘ s(1-s); dW1 = δ1 x. Without hidden units δ2 is δ1.
    """
    z_FRkB = _linear(x_FBD, params[0])
    s_FRHB = z_FRkB.sigmoid_() if len(params) > 1 else z_FRkB
    delta = torch.softmax(_output(s_FRHB, params[1]) if len(params) > 1 else z_FRkB, dim=2)
    delta = delta.sub_(y_FCB[:, None]).mul_(1.0 / delta.shape[3])
    if len(params) == 1:
        return [_weight_gradient(delta, x_FBD)]
    grad2 = torch.cat([delta @ s_FRHB.transpose(2, 3), delta.sum(dim=3, keepdim=True)], dim=-1)
    delta1 = params[1][..., :-1].transpose(2, 3) @ delta
    return [_weight_gradient(torch.ops.aten.sigmoid_backward(delta1, s_FRHB), x_FBD), grad2]


def flat(tensor: Tensor) -> Float:
    """Return a numpy view [F * R, rest] of a contiguous tensor [F, R, ...]."""
    array: Float = tensor.numpy().reshape(tensor.shape[0] * tensor.shape[1], -1)
    return array


# At these sizes separate torch operations cost more than the products do, so each optimiser is one compiled
# pass over flat arrays [models, k]. L2 is coupled (added to the gradient), with a weight per classifier.


@partial(compiled, fastmath={"contract"})
def _adam(
    w: Float, g: Float, m: Float, v: Float, l2: Float, step: int, lr: float, b1: float, b2: float, eps: float
) -> None:
    """Take a step of Adam: m = β1 m + (1-β1) g; v = β2 v + (1-β2) g²; w -= lr/(1-β1ᵗ) m/(√v/√(1-β2ᵗ) + ε)."""
    size = np.float32(lr / (1.0 - b1**step))
    root = np.float32(np.sqrt(1.0 - b2**step))
    c1, c2, e = np.float32(1.0 - b1), np.float32(1.0 - b2), np.float32(eps)
    d2 = np.float32(b2)
    for i in range(w.shape[0]):
        decay = l2[i]
        for j in range(w.shape[1]):
            grad = g[i, j] + decay * w[i, j]
            m[i, j] += c1 * (grad - m[i, j])
            v[i, j] = d2 * v[i, j] + c2 * grad * grad
            w[i, j] -= size * (m[i, j] / (np.sqrt(v[i, j]) / root + e))


@partial(compiled, fastmath={"contract"})
def _rmsprop(w: Float, g: Float, v: Float, l2: Float, lr: float, alpha: float, eps: float) -> None:
    """Take a step of RMSprop: v = α v + (1-α) g²; w -= lr g / (√v + ε)."""
    a, c, e, size = np.float32(alpha), np.float32(1.0 - alpha), np.float32(eps), np.float32(lr)
    for i in range(w.shape[0]):
        decay = l2[i]
        for j in range(w.shape[1]):
            grad = g[i, j] + decay * w[i, j]
            v[i, j] = a * v[i, j] + c * grad * grad
            w[i, j] -= size * (grad / (np.sqrt(v[i, j]) + e))


def update(optimiser: str, w: Float, grad: Float, state: Sequence[Float], l2: Float, step: int) -> None:
    """Take one step of ``torch.optim``'s Adam or RMSprop with their defaults (learning rates 1e-3 and 1e-2).

    ``w`` is one parameter of all models, [models, k] float32 (see :func:`flat`), changed in place, as are the
    two arrays of ``state`` of this shape (RMSprop leaves the second). The gradient has it too, and lacks the
    L2 term; its weight is by model. Steps are counted from 1.
    """
    if optimiser == "adam":
        _adam(w, grad, state[0], state[1], l2, step, 1e-3, 0.9, 0.999, 1e-8)
    else:
        _rmsprop(w, grad, state[0], l2, 1e-2, 0.99, 1e-8)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """One training of a model for each regulariser, on the same rows."""

    train: Int
    """Rows of the design matrix to train on, in the order that permutations index."""
    dev: Int
    """Rows whose score decides when to stop, and which weights to keep."""
    l2: tuple[float, ...]
    """Weight decay of each model."""
    split_length: int = 0
    """Length of the permutation drawn before those of the epochs (for the 5 % split); 0 draws none."""


@dataclass(frozen=True)
class FitResult:
    """Result of one :class:`Fit`, by regulariser."""

    score: list[float]
    """Best development score; of classes the accuracy in [0, 1]."""
    weights: list[list[Tensor]]
    """Best parameters [k, in] of each model; empty without ``keep_weights``."""


Gradients = Callable[[Tensor, Tensor, Sequence[Tensor]], list[Tensor]]
"""Maps a batch [F, B, D], targets [F, C, B] and parameters to the gradients of every model's loss."""
Score = Callable[[Tensor, Sequence[Tensor]], NDArray[np.float64]]
"""Maps development rows and the parameters of a fold's models to their scores [R]."""


def split_fit(rows: Int, l2: float, seed: int) -> Fit:
    """Return the last fit of cross-validated tasks, in which 5 % of ``rows`` decide when to stop."""
    order = np.random.RandomState(seed).permutation(len(rows))
    dev_count = int(0.05 * len(rows))
    if not dev_count:
        raise UserError(f"{len(rows)} training rows are too few: 5% of them decide when to stop")
    dev, train = rows[order[:dev_count]], rows[order[dev_count:]]
    return Fit(train=train, dev=dev, l2=(l2,), split_length=len(rows))


def train_fits(
    x_ND: Tensor,
    target_NC: Tensor,
    fits: Sequence[Fit],
    gradient: Gradients,
    score: Score,
    protocol: Protocol,
    seed: int,
    *,
    keep_weights: bool,
) -> list[FitResult]:
    """Train every fit until its own early stopping; fits of equal lengths are trained together.

    The design matrix is float32, its last column all ones (:func:`senteval_runner.protocol.features.design`).
    Every fit starts from the seed.
    """
    hidden_sizes = [protocol.nhid] if protocol.nhid else []
    groups = _group_fits(fits, max(1, GROUP_BYTES // (protocol.batch_size * x_ND.shape[1] * 4)))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        weights = initial_head(x_ND.shape[1] - 1, *hidden_sizes, target_NC.shape[1])

    def train(group: list[int], stop: Event) -> list[FitResult]:
        members = [fits[i] for i in group]
        trainer = _GroupTrainer(x_ND, target_NC, members, weights, gradient, score, protocol, keep_weights)
        return trainer.run(np.random.RandomState(seed), stop)

    results: dict[int, FitResult] = {}
    for group, results_of_group in zip(groups, _train_groups(train, groups), strict=True):
        results.update(zip(group, results_of_group, strict=True))
    return [results[i] for i in range(len(fits))]


def _train_groups(
    train: Callable[[list[int], Event], list[FitResult]], groups: Sequence[list[int]]
) -> list[list[FitResult]]:
    """Train groups in parallel, one thread each, because their products are too small to split.

    The order of groups changes no score. A single group keeps all of torch's threads.
    """
    torch_threads = torch.get_num_threads()
    threads = min(torch_threads, len(groups))
    stop = Event()
    if threads == 1:
        return [train(group, stop) for group in groups]
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        return list(pool.map(train, groups, itertools.repeat(stop)))
    finally:
        stop.set()  # after Ctrl-C the threads end after their round
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(torch_threads)


def _group_fits(fits: Sequence[Fit], max_size: int) -> list[list[int]]:
    """Return groups of fits that share random streams, as indices, in groups of even size."""
    fits_by_stream: dict[tuple[int, int, int], list[int]] = {}
    for index, fit in enumerate(fits):
        fits_by_stream.setdefault((len(fit.train), fit.split_length, len(fit.l2)), []).append(index)
    groups = []
    for members in fits_by_stream.values():
        group_count = math.ceil(len(members) / max_size)
        groups += [group.tolist() for group in np.array_split(members, group_count)]
    return groups


class _GroupTrainer:
    """Trains fits with one random stream.

    ``folds`` [F] and ``model_FR`` are the indices of the fits and of their models still in training.
    """

    def __init__(
        self,
        x_ND: Tensor,
        target_NC: Tensor,
        fits: Sequence[Fit],
        weights: Sequence[Tensor],
        gradient: Gradients,
        score: Score,
        protocol: Protocol,
        keep_weights: bool,
    ) -> None:
        self.x, self.target, self.fits = x_ND, target_NC, fits
        self.gradient, self.score = gradient, score
        self.protocol, self.keep_weights = protocol, keep_weights
        F, R = len(fits), len(fits[0].l2)
        self.params = [p.repeat(F, R, 1, 1) for p in weights]
        self.state = [[torch.zeros_like(p) for _ in range(2)] for p in self.params]
        self.folds = np.arange(F)
        self.model_FR = np.tile(np.arange(R), (F, 1))
        self.best_FR = np.full((F, R), -1.0)
        self.misses_FR = np.zeros((F, R), dtype=np.int64)
        self.is_training_FR = np.ones((F, R), dtype=bool)
        self.best_weights: dict[tuple[int, int], list[Tensor]] = {}
        self.step = 0
        self._refresh()

    def _refresh(self) -> None:
        """Update train rows [F, n], L2 [F * R] and numpy views to the models still in training."""
        self.train_Fn = torch.as_tensor(np.stack([self.fits[f].train for f in self.folds.tolist()]))
        l2 = np.array([fit.l2 for fit in self.fits], dtype=np.float32)
        self.l2 = l2[self.folds[:, None], self.model_FR].reshape(-1)
        self.flat_params = list(map(flat, self.params))
        self.flat_state = [list(map(flat, state)) for state in self.state]

    def run(self, generator: np.random.RandomState, stop: Event) -> list[FitResult]:
        """Train round by round until every model has stopped, or ``stop`` is set."""
        if self.fits[0].split_length:
            generator.permutation(self.fits[0].split_length)
        epochs = 0
        while self.is_training_FR.any() and epochs <= self.protocol.max_epoch and not stop.is_set():
            for _ in range(self.protocol.epoch_size):
                self._train_epoch(generator)
            epochs += self.protocol.epoch_size
            self._keep_or_stop()
            self._compact()
        models = range(len(self.fits[0].l2)) if self.keep_weights else ()
        weights = [[self.best_weights[f, r] for r in models] for f in range(len(self.fits))]
        return list(map(FitResult, self.best_FR.tolist(), weights))

    def _train_epoch(self, generator: np.random.RandomState) -> None:
        F, n = self.train_Fn.shape
        rows_Fn = self.train_Fn[:, torch.as_tensor(generator.permutation(n))]
        y_FCn = self.target.index_select(0, rows_Fn.view(-1)).view(F, n, -1).transpose(1, 2).contiguous()
        size = self.protocol.batch_size
        for rows_FB, y_FCB in zip(rows_Fn.split(size, dim=1), y_FCn.split(size, dim=2), strict=True):
            x_FBD = self.x.index_select(0, rows_FB.reshape(-1)).view(F, -1, self.x.shape[1])
            self.step += 1
            gradients = self.gradient(x_FBD, y_FCB, self.params)
            for w, gradient, state in zip(self.flat_params, gradients, self.flat_state, strict=True):
                update(self.protocol.optim, w, flat(gradient), state, self.l2, self.step)

    def _keep_or_stop(self) -> None:
        """Keep better weights, or stop a model at its (tenacity + 1)-th round without improvement.

        ``f`` and ``r`` number folds and models from the start, ``position`` and ``column`` those in training.
        """
        for position, f in enumerate(self.folds.tolist()):
            params = [p[position : position + 1] for p in self.params]
            score_R = self.score(torch.as_tensor(self.fits[f].dev), params)
            for column, r in enumerate(self.model_FR[position].tolist()):
                if not self.is_training_FR[f, r]:
                    continue
                if score_R[column] > self.best_FR[f, r]:
                    self.best_FR[f, r] = score_R[column]
                    if self.keep_weights:
                        self.best_weights[f, r] = [p[0, column].clone() for p in params]
                elif self.misses_FR[f, r] >= self.protocol.tenacity:
                    self.is_training_FR[f, r] = False
                else:
                    self.misses_FR[f, r] += 1

    def _compact(self) -> None:
        """Drop finished folds, pack the remaining models of each fold to the left, cut spare columns."""
        is_training = self.is_training_FR[self.folds[:, None], self.model_FR]
        width = int(is_training.sum(1).max())
        positions = np.flatnonzero(is_training.any(1))
        if width == 0 or (width == is_training.shape[1] and len(positions) == len(is_training)):
            return
        columns = np.argsort(~is_training[positions], axis=1, kind="stable")[:, :width]
        kept_models = torch.as_tensor(positions[:, None]), torch.as_tensor(columns)
        self.params = [p[kept_models].contiguous() for p in self.params]
        self.state = [[s[kept_models].contiguous() for s in states] for states in self.state]
        self.model_FR = self.model_FR[positions[:, None], columns]
        self.folds = self.folds[positions]
        self._refresh()
