"""The bag of words, and words by their spelling against loops over Python numbers."""

import hashlib
import math
from itertools import pairwise

import numpy as np
import pytest

from multiview.encoders.registry import ViewStack
from multiview.encoders.weightless import WIDTH
from multiview.inference.matches import nodes_of
from multiview.model_config import EncoderConfig
from tests.fixtures.models import encoder_of

MASK = 2**64 - 1
SENTENCES = [
    ["The", "cat", "sat", "on", "the", "mat", "."],
    ["Mr.", "Brontë", "'s", "3,000", "naïve", "readers"],
    ["of"],
    ["a", "river", "of", "rivers", ",", "of", "rivers", "ab" * 140],
]
"""The last word has more letter sequences than a byte counts."""


def mixed(value: int) -> int:
    """SplitMix64's finaliser in Python's integers (Steele, Lea & Flood 2014)."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def directions(key: int) -> list[float]:
    """±1/√K by the bits of the K/8 bytes of K/64 random numbers: the lowest bits, then those above them."""
    numbers = [mixed((key + count * 0x9E3779B97F4A7C15) & MASK) for count in range(1, WIDTH // 64 + 1)]
    places = b"".join(number.to_bytes(8, "little") for number in numbers)
    size = WIDTH**-0.5
    return [size if byte >> bit & 1 else -size for bit in range(8) for byte in places]


def key_of(word: str) -> int:
    digest = hashlib.blake2b(word.lower().encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") | 1


def slow_word(word: str) -> list[float]:
    """A word's own signs, and those of the trigrams of ``<word>`` over the root of their number."""
    total, marked = directions(key_of(word)), f"<{word.lower()}>"
    for a, b, c in zip(marked, marked[1:], marked[2:], strict=False):
        signs = directions(mixed((ord(a) << 42) + (ord(b) << 21) + ord(c)))
        total = [t + s / math.sqrt(len(marked) - 2) for t, s in zip(total, signs, strict=True)]
    return total


@pytest.mark.parametrize("buckets", [0, 3])
def test_a_bag_is_the_mean(buckets: int) -> None:
    encoder = encoder_of(buckets=buckets)
    means = [encoder.word_vectors(words).mean(axis=0) for words in SENTENCES]
    np.testing.assert_allclose(encoder.view_vectors(SENTENCES, views="bag"), means, atol=1e-6)
    batch = encoder.reader.parse([tuple(words) for words in SENTENCES], {"tokens"})
    (nodes,) = nodes_of(batch, encoder.network, [encoder.views.index("bag")])  # they are the words
    assert [len(rows) for rows in nodes.states] == [7, 6, 1, 8] and nodes.tree == ""


def test_spelling_is_a_mean_of_words_and_pairs() -> None:
    encoder = encoder_of("seq,spelling")
    keys = [[0, *(key_of(word) for word in words)] for words in SENTENCES]
    expected = [
        np.mean([slow_word(word) for word in words], axis=0)
        + np.mean([directions(mixed((a * 3 + b) % 2**64)) for a, b in pairwise(key)], axis=0) / 2
        for words, key in zip(SENTENCES, keys, strict=True)
    ]
    np.testing.assert_allclose(encoder.view_vectors(SENTENCES, views="spelling"), expected, atol=1e-6)


def test_words_beside_the_views_leave_their_weights() -> None:
    words = encoder_of().network.words
    network = ViewStack(["dep"], words, EncoderConfig(dim=4, relations=True))
    weights = dict(network.named_parameters())
    assert dict(network.with_bag().named_parameters()) == weights
