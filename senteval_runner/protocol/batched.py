"""Train the classifiers of all folds and regularisers of a task at once, with the results of single training.

If one tiny classifier is trained at a time, nearly all the time is spent on the overhead of each step. Every
training starts from the same seed, so those with equally many rows have the same initial weights and the same
permutations, and differ only in their rows and L2. :func:`train_fits` trains such a group together: a step is
one matrix product with gradients that are written out here, each classifier is stopped by its own development
accuracy, and finished classifiers leave the group.

Legend of dimension suffixes: F folds, R regularisers, B rows of a batch, D features of which the last is one
(its weight is the bias), H hidden units, C classes, k outputs of a layer. The parameters of a layer are
float32 [F, R, k, in], so that the rows of a fold are gathered once for all its regularisers, and one batched
product serves them. Weights are laid out as in ``nn.Linear``. Activations are [k, B], because [R*k, D] @ [D,
B] runs faster than its transposes, and a softmax along k runs much faster than one along a last dimension of
2.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from runtime.errors import UserError
from runtime.products import OneDnnProducts, products_for
from senteval_runner.protocol.config import Protocol
from senteval_runner.protocol.features import Int
from senteval_runner.protocol.optimisers import flat, update

GROUP_BYTES = 2 << 20
"""Bytes of the rows of one step at most; more would leave the processor's cache before the second product."""
MIN_ONEDNN_WEIGHTS = 16_384
"""Number of weights per fold from which the product of oneDNN is used, on processors where it is faster."""


def fold_products(a_FKM: Tensor, b_FMN: Tensor, weights: int) -> Tensor:
    """Return a @ b of each fold, [F, K, N]; the number of ``weights`` per fold decides on the library."""
    products = products_for(a_FKM)
    if a_FKM.shape[1] < 4 or weights < MIN_ONEDNN_WEIGHTS or not isinstance(products, OneDnnProducts):
        return torch.bmm(a_FKM, b_FMN)
    products_KN = list(map(products.product, a_FKM, b_FMN))
    return products_KN[0][None] if len(products_KN) == 1 else torch.stack(products_KN)


def _linear(x_FBD: Tensor, w_FRkD: Tensor) -> Tensor:
    """Return the outputs of a layer without biases for all regularisers, in one product: [F, R, k, B]."""
    F, R, k, D = w_FRkD.shape
    return fold_products(w_FRkD.view(F, R * k, D), x_FBD.transpose(1, 2), R * k * D).view(F, R, k, -1)


def _weight_gradient(delta_FRkB: Tensor, x_FBD: Tensor) -> Tensor:
    """Return the gradient of the weights of :func:`_linear`, [F, R, k, D], from that of its outputs."""
    F, R, k, B = delta_FRkB.shape
    return fold_products(delta_FRkB.view(F, R * k, B), x_FBD, R * k * x_FBD.shape[2]).view(F, R, k, -1)


# A classifier is ``Linear(d, C)``, or with hidden units ``Linear(d, H), Sigmoid, Linear(H, C)``. The lists of
# parameters below are ``[W [F, R, C, D]]`` or ``[W1 [F, R, H, D], W2 [F, R, C, H + 1]]``; the last column of
# each is the bias.


def initial_head(*sizes: int) -> list[Tensor]:
    """Draw the parameters of one classifier, [k, in + 1] of each layer, as ``nn.Linear`` draws them.

    ``sizes`` are the sizes of the input, of the hidden layer if there is one, and of the output. The numbers
    come from torch's global generator.
    """
    layers = [nn.Linear(dim, out) for dim, out in itertools.pairwise(sizes)]
    return [torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1) for layer in layers]


def logits(x_FBD: Tensor, params: Sequence[Tensor]) -> Tensor:
    """Return the logits of every classifier for the rows of its fold, [F, R, C, B]."""
    z_FRkB = _linear(x_FBD, params[0])
    return z_FRkB if len(params) == 1 else _output(torch.sigmoid(z_FRkB), params[1])


def _output(s_FRHB: Tensor, w_FRCh: Tensor) -> Tensor:
    """Return the output W2 s + b2 of the second layer, [F, R, C, B]."""
    return w_FRCh[..., :-1] @ s_FRHB + w_FRCh[..., -1:]


def gradients(x_FBD: Tensor, y_FCB: Tensor, params: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradient of the mean cross-entropy of every classifier, in the shapes of its parameters.

    With hidden units s = sigmoid(W1 x): δ2 = (softmax(W2 s) - y)/B; dW2 = δ2 sᵀ; δ1 = (W2ᵀ δ2) ∘ s(1-s);
    dW1 = δ1 x. Without hidden units δ1 = (softmax(W x) - y)/B and dW = δ1 x.
    """
    has_hidden = len(params) > 1
    z_FRkB = _linear(x_FBD, params[0])
    if has_hidden:
        s_FRHB = z_FRkB.sigmoid_()
        z_FRkB = _output(s_FRHB, params[1])
    delta_FRCB = torch.softmax(z_FRkB, dim=2)
    delta_FRCB = delta_FRCB.sub_(y_FCB[:, None]).mul_(1.0 / delta_FRCB.shape[3])
    if not has_hidden:
        return [_weight_gradient(delta_FRCB, x_FBD)]
    bias_gradient = delta_FRCB.sum(dim=3, keepdim=True)
    w2_gradient = torch.cat([delta_FRCB @ s_FRHB.transpose(2, 3), bias_gradient], dim=-1)
    s_gradient = params[1][..., :-1].transpose(2, 3) @ delta_FRCB
    delta1_FRHB = torch.ops.aten.sigmoid_backward(s_gradient, s_FRHB)
    return [_weight_gradient(delta1_FRHB, x_FBD), w2_gradient]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Rows on which one model per regulariser is trained."""

    train: Int
    """Rows of the design matrix to train on; permutations index into this array."""
    dev: Int
    """Rows whose score decides when to stop, and which weights to keep."""
    l2: tuple[float, ...]
    """Weight of the L2 term of each model."""
    split_length: int = 0
    """Length of a permutation that is drawn before those of the epochs; 0 if there is none.

    :func:`split_fit` splits the rows by it, and the original toolkit draws all from one generator.
    """


@dataclass(frozen=True)
class FitResult:
    """The models of one :class:`Fit`."""

    score: list[float]
    """The best development score of each model; for classifiers the accuracy in [0, 1]."""
    weights: list[list[Tensor]]
    """The parameters [k, in] of each model at its best score; empty without ``keep_weights``."""


Gradients = Callable[[Tensor, Tensor, Sequence[Tensor]], list[Tensor]]
"""Maps a batch [F, B, D], targets [F, C, B] and parameters to the gradients of every model's loss."""
Score = Callable[[Tensor, Sequence[Tensor]], NDArray[np.float64]]
"""Maps development rows and the parameters of a fold's models to their scores [R]."""


def split_fit(rows: Int, l2: float, seed: int) -> Fit:
    """Return the fit of the chosen regulariser ``l2`` of a cross-validated task.

    5 % of ``rows``, drawn by ``seed``, decide when to stop; the others are trained on. Raises UserError if
    5 % are less than one row.
    """
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
    """Train the models of every fit until each is stopped by its own development score.

    Fits with equally many rows are trained together. The results are those of training each fit alone,
    starting from ``seed``.

    Args:
        x_ND: the design matrix, float32 (:func:`senteval_runner.protocol.features.design`).
        target_NC: the targets of all rows; for classifiers one-hot vectors.
        fits: rows and regularisers.
        gradient: computes the gradients of a batch.
        score: computes the development scores of the models of a fold.
        protocol: options of the training.
        seed: of the initial weights and of the order of rows.
        keep_weights: whether the results hold the weights of the best scores.
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
    """Train groups in parallel, one thread each, because the products of a group are too small for more.

    The order of groups changes no score. If there is a single group, it uses all threads of torch.
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
    """Return groups of indices of fits that draw the same permutations, with at most ``max_size`` in each.

    Groups of the same permutations have the same size, or differ by one.
    """
    fits_by_stream: dict[tuple[int, int, int], list[int]] = {}
    for index, fit in enumerate(fits):
        fits_by_stream.setdefault((len(fit.train), fit.split_length, len(fit.l2)), []).append(index)
    groups = []
    for members in fits_by_stream.values():
        group_count = math.ceil(len(members) / max_size)
        groups += [group.tolist() for group in np.array_split(members, group_count)]
    return groups


class _GroupTrainer:
    """Trains a group of fits that draw the same permutations.

    ``folds`` [F] holds the indices of the fits that are still in training, and ``model_FR`` the indices of
    their models that are. The rows of parameters and of the optimiser's states are in the same order.
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
        """Set train rows [F, n], L2 [F * R] and numpy views to those of the models still in training."""
        self.train_Fn = torch.as_tensor(np.stack([self.fits[f].train for f in self.folds.tolist()]))
        l2 = np.array([fit.l2 for fit in self.fits], dtype=np.float32)
        self.l2 = l2[self.folds[:, None], self.model_FR].reshape(-1)
        self.flat_params = list(map(flat, self.params))
        self.flat_state = [list(map(flat, state)) for state in self.state]

    def run(self, generator: np.random.RandomState, stop: Event) -> list[FitResult]:
        """Train round by round until every model has stopped or ``stop`` is set, and return the results."""
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
        """Take a step on every batch of the train rows, in a new order that all fits share."""
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
        """Keep the weights of models that improved; stop a model after ``tenacity`` + 1 rounds without.

        ``f`` is the index of a fit in the group, and ``r`` that of a model of the fit. ``position`` and
        ``column`` are their indices among the parameters in training.
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
        """Drop the parameters and states of finished models.

        Folds without a model in training are dropped. In each other fold the models in training move to the
        left, and as many columns are kept as the fold with the most models needs.
        """
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
