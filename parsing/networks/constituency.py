"""The constituency parser of Kitaev & Klein (2018): span scores, margin loss, batched parsing.

    s(i, j, ·) = M relu(LayerNorm(W (f_j - f_i) + b)) + c          f_i = [ahead_i ; back_(i+1)]

The vector f_i of the fencepost between words i and i+1 joins the encoder's forward state before it and the
backward state after it. W is applied to the n + 1 fenceposts before they are subtracted, not to n(n+1)/2
differences, and only spans that exist are scored, in the layout of :mod:`parsing.networks.cky`, which finds
the trees. Tags are scored from the states of the words.

Shapes: B sentences, T positions (both boundaries included), P fenceposts (n + 1 a sentence, packed),
N words (packed), D encoder output, S spans, H hidden, K labels without the null label.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from parsing.networks.cky import Float, best_labels, best_trees, decode_batch, fenceposts, span_offsets
from parsing.networks.config import EncoderSizes, SpanSizes
from parsing.networks.features import ParserVocabulary
from parsing.networks.parser import VOCABULARY, EncodedModel, EncodedParser, ModelFolder, Stages
from parsing.trees.batch import ConstituencyParse, Int
from runtime.cli import config_to_json
from runtime.compiled import compiled
from runtime.device import pick_masked, to_host
from runtime.errors import UserError

CHUNK_SPANS = 4096
"""Spans scored at once: 4096 x 250 floats stay in a core's second-level cache."""
DEVICE_CHUNK_SPANS = 2**20
"""The same on a GPU: 2^20 x 250 floats are 1 GB."""
TAG_SCALE = 5.0
"""Weight of the tags' loss, benepar's."""
IGNORED = -100
"""Gold tag of a word that has none."""
Best: TypeAlias = Callable[[], tuple[Float, Int]]
"""Waits for the best label of every span and its score, [S] each."""


class SpanHead(nn.Sequential):
    """benepar's span classifier from D to H to K: the same layers, so that weights carry over."""

    def __init__(self, features: int, hidden: int, labels: int) -> None:
        super().__init__(
            nn.Linear(features, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, labels)
        )

    @property
    def parts(self) -> tuple[nn.Linear, nn.LayerNorm, nn.Linear]:
        """Return the three layers that have weights."""
        return cast(tuple[nn.Linear, nn.LayerNorm, nn.Linear], (self[0], self[1], self[3]))

    def project(self, posts_PD: Tensor) -> Tensor:
        """Compute W f_i for every fencepost: [P, H]."""
        return F.linear(posts_PD, self.parts[0].weight)

    def best_spans(self, projected_PH: Tensor, lengths: Int, gold: Int | None = None) -> Best:
        """Find the best label of every span and its score, without gradients; a GPU is not waited for.

        ``lengths`` are int64 [B], in words. Whole sentences may not take the null label. In training all
        labels but ``gold``, int32 [S], get the margin 1.
        """
        offsets, cost = span_offsets(lengths), float(gold is not None)
        labelled = np.zeros(int(offsets[-1]), np.bool_)
        labelled[offsets[:-1] + lengths - 1] = True
        gold = np.zeros(len(labelled), np.int32) if gold is None else gold
        of_device = self._best_on_cpu if projected_PH.device.type == "cpu" else self._best_on_device
        with torch.no_grad():
            return of_device(projected_PH.detach(), lengths, labelled, gold, cost)

    def _best_on_cpu(
        self, projected_PH: Tensor, lengths: Int, labelled: NDArray[np.bool_], gold: Int, cost: float
    ) -> Best:
        """Find the best labels with compiled code; torch computes the product with M."""
        first, norm, last = self.parts
        # Subtracting the mean, which LayerNorm does, is linear and is done on the fenceposts.
        centred = projected_PH - projected_PH.mean(-1, keepdim=True)
        ends = centred.numpy(), (centred + (first.bias - first.bias.mean())).numpy()
        scale, shift = norm.weight.detach().numpy(), norm.bias.detach().numpy()
        left, right = fenceposts(lengths)
        best, label = np.empty(len(left), np.float32), np.empty(len(left), np.int32)
        for start in range(0, len(left), CHUNK_SPANS):
            chunk = slice(start, start + CHUNK_SPANS)
            hidden = np.empty((len(left[chunk]), projected_PH.shape[1]), np.float32)
            _hidden(*ends, left[chunk], right[chunk], scale, shift, norm.eps, hidden)
            scores = torch.addmm(last.bias, torch.from_numpy(hidden), last.weight.T).numpy()
            best_labels(scores, gold[chunk], cost, labelled[chunk], best[chunk], label[chunk])
        return lambda: (best, label)

    def _best_on_device(
        self, projected_PH: Tensor, lengths: Int, labelled: NDArray[np.bool_], gold: Int, cost: float
    ) -> Best:
        """Queue everything at once, so that only the best labels come back; the null label wins a tie."""
        first, norm, last = self.parts
        null = torch.from_numpy(np.where(labelled, -np.inf, cost * (gold != 0)).astype(np.float32))
        host = *fenceposts(lengths), null, torch.from_numpy(gold.astype(np.int64))
        arrays = [
            torch.as_tensor(values).to(projected_PH.device).split(DEVICE_CHUNK_SPANS) for values in host
        ]
        chunks = []
        for left, right, null, gold_S in zip(*arrays, strict=True):
            scores = last(norm(projected_PH[right] - projected_PH[left] + first.bias).relu())
            if cost:  # of every label but the gold one
                scores = scores + cost * (1 - F.one_hot(gold_S, scores.shape[1] + 1)[:, 1:])
            score, label = scores.max(-1)
            chunks.append((torch.maximum(score, null), torch.where(score > null, label + 1, 0)))
        best, label = (torch.cat(column) for column in zip(*chunks, strict=True))
        arriving = to_host(best), to_host(label.int())
        return lambda: (np.asarray(arriving[0](), np.float32), np.asarray(arriving[1](), np.int32))


# Sums may be reordered (vector registers); no other liberty is taken.
@functools.partial(compiled, fastmath={"reassoc", "contract"})
def _hidden(
    left_PH: Float,
    right_PH: Float,
    left: Int,
    right: Int,
    scale: Float,
    shift: Float,
    eps: float,
    hidden: Float,
) -> None:
    """Write relu(LayerNorm(x)) of the centred x = right_PH[right] - left_PH[left] to ``hidden``."""
    size = hidden.shape[1]
    for k in range(len(left)):
        a, b, out = left_PH[left[k]], right_PH[right[k]], hidden[k]
        total = np.float32(0.0)
        for h in range(size):
            x = b[h] - a[h]
            out[h] = x
            total += x * x
        inverse = np.float32(1.0 / np.sqrt(total / size + eps))
        for h in range(size):
            out[h] = max(out[h] * inverse * scale[h] + shift[h], np.float32(0.0))


class ConstituencyModel(EncodedModel):
    """Encoder with an end boundary, where the last span ends, span head and tag head.

    The null label ``""`` is the first one and has no weights.
    """

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
        self.span_head = SpanHead(width, config.label_hidden, len(labels) - 1)
        self.tag_head = nn.Sequential(
            nn.Linear(width, config.tag_hidden),
            nn.LayerNorm(config.tag_hidden),
            nn.ReLU(),
            nn.Linear(config.tag_hidden, len(tags)),
        )

    @classmethod
    def from_folder(cls, folder: ModelFolder) -> ConstituencyModel:
        """Build the model that a folder holds, in eval mode; refuse what does not fit this version."""
        encoder, config = folder.part(EncoderSizes, key="encoder"), folder.part(SpanSizes)
        vocabulary = folder.part(ParserVocabulary, VOCABULARY)
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
        """Add the tags' cross-entropy, weighted, and the mean margin loss of the sentences that have a tree.

        ``positions_B`` are n + 2, on the host; gold tags, [B] of [n], are ``IGNORED`` where there is none.
        """
        scores_NC = self.tag_head(word_states(states_BTD, positions_B))
        targets_N = torch.from_numpy(np.concatenate(tags).astype(np.int64))
        on_device = targets_N.to(scores_NC.device)
        total = F.cross_entropy(scores_NC, on_device, ignore_index=IGNORED, reduction="sum")
        loss = TAG_SCALE * (total / max(int((targets_N != IGNORED).sum()), 1))
        with_tree = [b for b, parse in enumerate(parses) if parse is not None]
        if with_tree:
            positions = positions_B[with_tree]
            posts_PD = fencepost_vectors(states_BTD[with_tree], positions)
            known = [parse for parse in parses if parse is not None]
            loss = loss + margin_loss(self.span_head, posts_PD, positions.numpy() - 2, known).mean()
        return loss


def fencepost_vectors(states_BTD: Tensor, positions_B: Tensor) -> Tensor:
    """Return f_i = [ahead_i ; back_(i+1)] of fenceposts of sentences of n + 2 positions, packed: [P, D]."""
    half = states_BTD.shape[-1] // 2
    mask = torch.arange(states_BTD.shape[1] - 1, device=positions_B.device) < positions_B[:, None] - 1
    return torch.cat(
        [pick_masked(states_BTD[:, :-1, :half], mask), pick_masked(states_BTD[:, 1:, half:], mask)], -1
    )


def word_states(states_BTD: Tensor, positions_B: Tensor) -> Tensor:
    """Return the states of the words without the boundaries, packed: [N, D]."""
    positions_T = torch.arange(states_BTD.shape[1], device=positions_B.device)
    return pick_masked(states_BTD, (positions_T > 0) & (positions_T < positions_B[:, None] - 1))


def gold_labels(parses: Sequence[ConstituencyParse], offsets: Int) -> Int:
    """Return int32 [S], the gold label of every span of a batch, 0 where there is no constituent."""
    gold = np.zeros(int(offsets[-1]), np.int32)
    for parse, base in zip(parses, offsets[:-1], strict=True):
        n, starts = len(parse.tags), parse.starts.astype(np.int64)
        gold[base + starts * n - starts * (starts - 1) // 2 + parse.ends - starts - 1] = parse.labels
    return gold


def margin_loss(
    head: SpanHead, posts_PD: Tensor, lengths: Int, parses: Sequence[ConstituencyParse]
) -> Tensor:
    """Compute each sentence's loss [B] from its n + 1 fencepost vectors, packed, and its n words [B].

    For gold spans T* and any tree T of labelled spans, the whole sentence among them (Hamming cost):

        loss = max(0, max_T [s(T) + cost(T, T*)] - s(T*)),   cost = spans of T whose label is not the gold one

    The plain formulation keeps the scores of all spans for the backward pass and differentiates through CKY.
    But the loss depends on two trees only: all spans are scored without gradients, CKY finds the worst tree,
    and where it agrees with the gold tree the scores cancel. Gradients flow through the (span, label) pairs
    on which they differ, at a quarter to a seventh of the cost.
    """
    projected_PH, lengths = head.project(posts_PD), np.asarray(lengths, np.int64)
    gold = gold_labels(parses, offsets := span_offsets(lengths))
    best, label = head.best_spans(projected_PH, lengths, gold)()
    spans = best_trees(best, lengths, offsets)[2]
    owners = np.repeat(np.arange(len(lengths)), 2 * lengths - 1)
    wrong, missing = label[spans] != gold[spans], gold != 0
    missing[spans[~wrong]] = False
    # The (span, label) pairs on which the worst trees (+1) and the gold trees (-1) differ.
    added, missed = wrong & (label[spans] != 0), np.flatnonzero(missing)
    sentences = np.concatenate([owners[added], np.searchsorted(offsets, missed, side="right") - 1])
    labels = np.concatenate([label[spans[added]], gold[missed]]).astype(np.int64)
    signs = np.repeat(np.array([1, -1], np.float32), [int(added.sum()), len(missed)])
    # Sentence by sentence: the order of the sum over pairs decides the last bit of the gradient.
    order = np.argsort(sentences, kind="stable")
    pairs = np.concatenate([spans[added], missed])[order]
    left, right = (posts[pairs].astype(np.int64) for posts in fenceposts(lengths))
    costs = np.bincount(owners[wrong], minlength=len(lengths)).astype(np.float32)

    def here(values: Int | Float) -> Tensor:
        return torch.from_numpy(values).to(posts_PD.device)

    first, norm, last = head.parts
    hidden = norm(projected_PH[here(right)] - projected_PH[here(left)] + first.bias).relu()
    label_P = here(labels[order]) - 1  # null has no weights
    scores = ((hidden * last.weight[label_P]).sum(-1) + last.bias[label_P]) * here(signs[order])
    return here(costs).to(scores.dtype).index_add(0, here(sentences[order]), scores).relu()


class SpanParser(EncodedParser[ConstituencyParse]):
    """A :class:`ConstituencyModel` as a :class:`parsing.trees.batch.ConstituencyParser`."""

    def __init__(self, model: ConstituencyModel, identity: dict[str, str]) -> None:
        super().__init__(model, identity)
        self.model, self.labels, self.tags = model, model.labels, model.tags

    @torch.inference_mode()
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[ConstituencyParse]:
        """Find the trees, as :meth:`EncodedParser.parse_states` asks."""
        head, lengths = self.model.span_head, positions_B.numpy().astype(np.int64) - 2
        best = head.best_spans(head.project(fencepost_vectors(states_BTD, positions_B)), lengths)
        tags = to_host(self.model.tag_head(word_states(states_BTD, positions_B)).argmax(-1))
        yield
        *columns, counts = decode_batch(*best(), lengths)
        words, cuts = np.cumsum(lengths)[:-1], np.cumsum(counts)[:-1]
        split = (np.split(values, cuts) for values in columns)
        return list(map(ConstituencyParse, np.split(tags().astype(np.int32), words), *split))
