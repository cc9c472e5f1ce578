"""The constituency parser of Kitaev & Klein (2018): span scores, margin loss, batched parsing.

    s(i, j, ·) = M relu(LayerNorm(W (f_j - f_i) + b)) + c          f_i = [ahead_i ; back_(i+1)]

A fencepost is the boundary between two words. The vector f_i of the fencepost between words i and i+1 is the
encoder's forward state before it, concatenated with the backward state after it. W is applied to the n + 1
fenceposts before they are subtracted, because there are n(n+1)/2 differences. Spans are in the order of
:mod:`parsing.networks.cky`, which finds the trees. Tags are scored from the states of the words.

Legend of dimension suffixes: B sentences, T positions (both boundaries included), P fenceposts (n + 1 a
sentence, packed), N words (packed), D encoder output, S spans, H hidden, K labels without the null label.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from parsing.networks.cky import Float, best_labels, best_trees, decode_batch, fenceposts, span_offsets
from parsing.networks.config import EncoderSizes, SpanSizes
from parsing.networks.features import ParserVocabulary
from parsing.networks.parser import VOCABULARY, EncodedParser, ParserModel, Stages, load_model_folder
from parsing.trees.batch import ConstituencyParse, Int
from runtime.cli import config_to_json
from runtime.compiled import compiled
from runtime.device import pick_masked, to_host
from runtime.errors import UserError
from runtime.products import products_for

CHUNK_SPANS = 4096
"""The number of spans scored at once: 4096 x 250 floats stay in a core's second-level cache."""
DEVICE_CHUNK_SPANS = 2**20
"""The number of spans scored at once on a GPU: 2^20 x 250 floats are 1 GB."""
TAG_SCALE = 5.0
"""The weight of the loss of the tags, as in benepar."""
NO_TAG = -100
"""The gold tag of a word that has none; torch's cross-entropy ignores such words."""
WaitForLabels: TypeAlias = Callable[[], tuple[Float, Int]]
"""Waits for the device and returns the score of each span's best label, and this label, [S] each."""


class LabelHead(nn.Sequential):
    """A classifier of spans or words, D to H to K, with the layers of benepar, whose weights fit it."""

    def __init__(self, features: int, hidden: int, labels: int) -> None:
        super().__init__(
            nn.Linear(features, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, labels)
        )

    @property
    def parts(self) -> tuple[nn.Linear, nn.LayerNorm, nn.Linear]:
        """The three layers that have weights."""
        return cast(tuple[nn.Linear, nn.LayerNorm, nn.Linear], (self[0], self[1], self[3]))

    def best_labels(self, posts_PH: Tensor, lengths: Int, gold: Int | None = None) -> WaitForLabels:
        """Find the best label of each span, without gradients and without waiting for a GPU.

        Whole sentences may not have the null label.

        Args:
            posts_PH: W f_i of the fenceposts.
            lengths: the number of words of each sentence, int64 [B].
            gold: in training the gold label of each span, int32 [S]; 1 is added to the scores of all others.
        """
        offsets = span_offsets(lengths)
        needs_label = np.zeros(int(offsets[-1]), np.bool_)
        needs_label[offsets[:-1] + lengths - 1] = True
        cost = 0.0 if gold is None else 1.0
        gold = np.zeros(len(needs_label), np.int32) if gold is None else gold
        method = self._best_labels_on_cpu if posts_PH.is_cpu else self._best_labels_on_gpu
        with torch.no_grad():
            return method(posts_PH.detach(), lengths, needs_label, gold, cost)

    def _best_labels_on_cpu(
        self, posts_PH: Tensor, lengths: Int, needs_label: NDArray[np.bool_], gold: Int, cost: float
    ) -> WaitForLabels:
        """Compute :meth:`best_labels`: all but the product with M is compiled code."""
        hidden_layer, norm, output_layer = self.parts
        # LayerNorm's mean is linear in its input, so it can be subtracted from each fencepost once.
        left_PH = posts_PH - posts_PH.mean(-1, keepdim=True)
        right_PH = left_PH + (hidden_layer.bias - hidden_layer.bias.mean())
        scale, shift = norm.weight.detach().numpy(), norm.bias.detach().numpy()
        left, right = fenceposts(lengths)
        products = products_for(posts_PH)
        best, label = np.empty(len(left), np.float32), np.empty(len(left), np.int32)
        for first in range(0, len(left), CHUNK_SPANS):
            spans = slice(first, first + CHUNK_SPANS)
            out = np.empty((len(left[spans]), posts_PH.shape[1]), np.float32)
            ends = left_PH.numpy(), right_PH.numpy(), left[spans], right[spans]
            _norm_and_relu(*ends, scale, shift, norm.eps, out)
            scores = products.linear(torch.from_numpy(out), output_layer.weight, output_layer.bias).numpy()
            best_labels(scores, gold[spans], cost, needs_label[spans], best[spans], label[spans])
        return lambda: (best, label)

    def _best_labels_on_gpu(
        self, posts_PH: Tensor, lengths: Int, needs_label: NDArray[np.bool_], gold: Int, cost: float
    ) -> WaitForLabels:
        """Compute :meth:`best_labels` on a GPU; the null label wins a tie.

        All work is queued at once, and only the best labels are copied back.
        """
        hidden_layer, norm, output_layer = self.parts
        null_scores = np.where(needs_label, -np.inf, cost * (gold != 0)).astype(np.float32)
        arrays = *fenceposts(lengths), null_scores, gold.astype(np.int64)
        columns = [torch.as_tensor(array).to(posts_PH.device).split(DEVICE_CHUNK_SPANS) for array in arrays]
        best_chunks, label_chunks = [], []
        for left, right, null_score, gold_S in zip(*columns, strict=True):
            scores = output_layer(norm(posts_PH[right] - posts_PH[left] + hidden_layer.bias).relu())
            if cost:  # added to every label but the gold one
                scores = scores + cost * (1 - F.one_hot(gold_S, scores.shape[1] + 1)[:, 1:])
            score, label = scores.max(-1)
            best_chunks.append(torch.maximum(score, null_score))
            label_chunks.append(torch.where(score > null_score, label + 1, 0))
        wait_for_best = to_host(torch.cat(best_chunks))
        wait_for_label = to_host(torch.cat(label_chunks).int())
        return lambda: (np.asarray(wait_for_best(), np.float32), np.asarray(wait_for_label(), np.int32))


# Sums may be reordered, so that they are vectorised, and products and sums contracted.
@functools.partial(compiled, fastmath={"reassoc", "contract"})
def _norm_and_relu(
    left_PH: Float,
    right_PH: Float,
    left: Int,
    right: Int,
    scale: Float,
    shift: Float,
    eps: float,
    out: Float,
) -> None:
    """Write relu(LayerNorm(x)) of x = right_PH[right] - left_PH[left], whose mean is 0, to ``out``."""
    size = out.shape[1]
    for k in range(len(left)):
        a, b, row = left_PH[left[k]], right_PH[right[k]], out[k]
        total = np.float32(0.0)
        for h in range(size):
            x = b[h] - a[h]
            row[h] = x
            total += x * x
        inverse = np.float32(1.0 / np.sqrt(total / size + eps))
        for h in range(size):
            row[h] = max(row[h] * inverse * scale[h] + shift[h], np.float32(0.0))


class ConstituencyModel(ParserModel):
    """The encoder, with an end boundary, and classifiers of spans and tags; label 0, "", has no weights."""

    kind = "constituency"

    def __init__(
        self,
        vocabulary: ParserVocabulary,
        labels: Sequence[str],
        tags: Sequence[str],
        encoder: EncoderSizes,
        config: SpanSizes,
    ) -> None:
        super().__init__(vocabulary, encoder, config_to_json(config), labels=labels, tags=tags)
        self.config = config
        self.labels, self.tags = tuple(labels), tuple(tags)
        width = self.encoder.output_dim
        self.span_head = LabelHead(width, config.label_hidden, len(labels) - 1)
        self.tag_head = LabelHead(width, config.tag_hidden, len(tags))

    @classmethod
    def load(cls, path: Path) -> ConstituencyModel:
        """Load a model folder, in eval mode. Raises UserError if it is damaged or its sizes do not fit."""
        folder = load_model_folder(path, cls.kind)
        encoder = folder.section(EncoderSizes, key="encoder")
        config = folder.section(SpanSizes)
        vocabulary = folder.section(ParserVocabulary, VOCABULARY)
        labels, tags = folder.names("labels"), folder.names("tags")
        if labels[0] != "":
            raise UserError(f"{folder.path / VOCABULARY}: the first label must be the empty one")
        return folder.build(lambda: cls(vocabulary, labels, tags, encoder, config))

    def loss(
        self,
        states_BTD: Tensor,
        positions_B: Tensor,
        parses: Sequence[ConstituencyParse | None],
        tags: Sequence[Int],
    ) -> Tensor:
        """Return the weighted mean loss of the tags plus the mean loss of the trees.

        Args:
            states_BTD: the encoder's states.
            positions_B: the positions of each sentence, n + 2 for n words, on the host.
            parses: the gold tree of each sentence; one that is None has no loss.
            tags: the gold tags of each sentence, ``NO_TAG`` where there is none.
        """
        scores_NC = self.tag_head(word_states(states_BTD, positions_B))
        tags_N = torch.from_numpy(np.concatenate(tags).astype(np.int64))
        tag_count = int((tags_N != NO_TAG).sum())
        tags_N = tags_N.to(scores_NC.device)
        entropy = F.cross_entropy(scores_NC, tags_N, ignore_index=NO_TAG, reduction="sum")
        loss = TAG_SCALE * (entropy / max(tag_count, 1))
        trees = {b: parse for b, parse in enumerate(parses) if parse is not None}
        if trees:
            sentences = list(trees)
            positions = positions_B[sentences]
            posts_PD = fencepost_vectors(states_BTD[sentences], positions)
            lengths = positions.numpy() - 2
            loss = loss + margin_loss(self.span_head, posts_PD, lengths, list(trees.values())).mean()
        return loss


def fencepost_vectors(states_BTD: Tensor, positions_B: Tensor) -> Tensor:
    """Return f_i = [ahead_i ; back_(i+1)] of the fenceposts of sentences with n + 2 positions: [P, D]."""
    half = states_BTD.shape[-1] // 2
    mask = torch.arange(states_BTD.shape[1] - 1, device=positions_B.device) < positions_B[:, None] - 1
    return torch.cat(
        [pick_masked(states_BTD[:, :-1, :half], mask), pick_masked(states_BTD[:, 1:, half:], mask)], -1
    )


def word_states(states_BTD: Tensor, positions_B: Tensor) -> Tensor:
    """Return the states of the words, without the boundaries: [N, D]."""
    positions_T = torch.arange(states_BTD.shape[1], device=positions_B.device)
    return pick_masked(states_BTD, (positions_T > 0) & (positions_T < positions_B[:, None] - 1))


def gold_labels(parses: Sequence[ConstituencyParse], offsets: Int) -> Int:
    """Return the gold label of each span of a batch, 0 where there is no constituent: int32 [S]."""
    gold = np.zeros(int(offsets[-1]), np.int32)
    for parse, base in zip(parses, offsets[:-1], strict=True):
        n, starts = len(parse.tags), parse.starts.astype(np.int64)
        gold[base + starts * n - starts * (starts - 1) // 2 + parse.ends - starts - 1] = parse.labels
    return gold


def margin_loss(
    head: LabelHead, posts_PD: Tensor, lengths: Int, parses: Sequence[ConstituencyParse]
) -> Tensor:
    """Return the margin loss of each sentence, [B].

    For the gold tree T* and any tree T of labelled spans that has the whole sentence as a span:

        loss = max(0, max_T [s(T) + cost(T, T*)] - s(T*)),   cost = spans of T whose label is not the gold one

    The plain formulation keeps the scores of all spans for the backward pass and differentiates through CKY.
    But the loss depends on two trees only. Here all spans are scored without gradients, and CKY finds the
    tree T of the maximum. Where T agrees with the gold tree, the scores cancel, so that only the (span,
    label) pairs on which they differ are scored with gradients, at a quarter to a seventh of the cost.

    Args:
        head: the classifier of spans.
        posts_PD: the fencepost vectors of all sentences, packed.
        lengths: the number of words of each sentence, int64 [B].
        parses: the gold trees.
    """
    offsets = span_offsets(lengths)
    gold = gold_labels(parses, offsets)
    hidden_layer, norm, output_layer = head.parts
    posts_PH = F.linear(posts_PD, hidden_layer.weight)
    best, label = head.best_labels(posts_PH, lengths, gold)()
    _, _, spans = best_trees(best, lengths, offsets)
    owners = np.repeat(np.arange(len(lengths)), 2 * lengths - 1)
    is_wrong = label[spans] != gold[spans]
    costs = np.bincount(owners[is_wrong], minlength=len(lengths)).astype(np.float32)
    # The (span, label) pairs that are only in the worst trees (+1) or only in the gold trees (-1).
    is_extra = is_wrong & (label[spans] != 0)
    missing_spans = np.setdiff1d(np.flatnonzero(gold), spans[~is_wrong])
    owners_of_missing = np.searchsorted(offsets, missing_spans, side="right") - 1
    extra = np.stack([owners, spans, label[spans]])[:, is_extra]
    missing = np.stack([owners_of_missing, missing_spans, gold[missing_spans]])
    signs = np.repeat(np.array([1, -1], np.float32), [extra.shape[1], missing.shape[1]])
    # By sentence, because the order of the sum over pairs decides the last bit of the gradient.
    pairs = np.concatenate([extra, missing], 1)
    order = np.argsort(pairs[0], kind="stable")
    owner_ids, pair_spans, label_ids = pairs[:, order]
    ends = (posts[pair_spans].astype(np.int64) for posts in fenceposts(lengths))
    arrays = *ends, owner_ids, label_ids - 1, signs[order], costs  # the null label has no weights
    left, right, owner, label_id, sign, cost = (torch.from_numpy(a).to(posts_PD.device) for a in arrays)
    hidden_states = norm(posts_PH[right] - posts_PH[left] + hidden_layer.bias).relu()
    scores = (hidden_states * output_layer.weight[label_id]).sum(-1) + output_layer.bias[label_id]
    return cost.to(scores.dtype).index_add(0, owner, scores * sign).relu()


class SpanParser(EncodedParser[ConstituencyParse]):
    """Parses with a :class:`ConstituencyModel`, as a :class:`parsing.trees.batch.ConstituencyParser`."""

    def __init__(self, model: ConstituencyModel) -> None:
        super().__init__(model)
        self.model, self.labels, self.tags = model, model.labels, model.tags

    @torch.inference_mode()
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[ConstituencyParse]:
        """Find the trees of a batch; see :meth:`EncodedParser.parse_states`."""
        head = self.model.span_head
        lengths = positions_B.numpy().astype(np.int64) - 2
        products = products_for(states_BTD)
        posts_PH = products.linear(fencepost_vectors(states_BTD, positions_B), head.parts[0].weight)
        wait_for_labels = head.best_labels(posts_PH, lengths)
        wait_for_tags = to_host(self.model.tag_head(word_states(states_BTD, positions_B)).argmax(-1))
        yield
        spans_by_sentence = decode_batch(*wait_for_labels(), lengths)
        tags_by_sentence = np.split(wait_for_tags().astype(np.int32), np.cumsum(lengths)[:-1])
        return list(map(ConstituencyParse, tags_by_sentence, *spans_by_sentence))
