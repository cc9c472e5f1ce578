"""The views without weights: a bag of words and hashed words and pairs, against loops over Python numbers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from multiview.config import EncoderConfig
from multiview.encoders.registry import Reading, ViewStack
from multiview.explanation import nodes_of
from multiview.folder.files import Member
from multiview.model import MultiViewEncoder
from multiview.words.table import Vocabulary, WordTable

MASK = 2**64 - 1
LISTED = ["the", "of", "cat", "sat", "river"]
SENTENCES = [
    ["The", "cat", "sat", "on", "the", "mat", "."],
    ["Mr.", "Brontë", "'s", "3,000", "naïve", "readers"],
    ["of"],
    ["a", "river", "of", "rivers", ",", "of", "rivers"],
]


def mixed(value: int) -> int:
    """SplitMix64's finaliser in Python's integers (Steele, Lea & Flood 2014)."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def directions(key: int) -> list[float]:
    """±1/64 by the bits of the 512 bytes of 64 random numbers: the lowest bits, then those above them."""
    numbers = [mixed((key + count * 0x9E3779B97F4A7C15) & MASK) for count in range(1, 65)]
    places = b"".join(number.to_bytes(8, "little") for number in numbers)
    return [1 / 64 if byte >> bit & 1 else -1 / 64 for bit in range(8) for byte in places]


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


def slow_hash(words: list[str], listed: list[str]) -> list[float]:
    total, before = [0.0] * 4096, 0
    harmonic = math.log(len(listed)) + 0.5772156649015329
    for word in words:
        rank = listed.index(word.lower()) + 1 if word.lower() in listed else len(listed) + 1
        weight = 1e-3 / (1e-3 + 1 / (rank * harmonic))
        key = key_of(word)
        pair = directions(mixed((before * 3 + key) & MASK))
        total = [t + weight * w + 0.25 * p for t, w, p in zip(total, slow_word(word), pair, strict=True)]
        before = key
    return [t / len(words) for t in total]


def encoder_of(
    views: str = "seq,bag,hash", buckets: int = 0, listed: Sequence[str] = LISTED
) -> MultiViewEncoder:
    vectors = np.random.default_rng(3).standard_normal((len(listed), 6)).astype(np.float32)
    words = WordTable.with_fixed(Vocabulary(listed, case="lower", buckets=buckets), vectors)
    torch.manual_seed(1)
    return MultiViewEncoder([Member(ViewStack(views.split(","), words, EncoderConfig(dim=4)))])


@pytest.mark.parametrize("buckets", [0, 3])
def test_both_equal_loops(buckets: int) -> None:
    long = ["ab" * 140, *["x"] * 260]  # signs are counted in bytes, 255 keys at a time
    encoder, sentences = encoder_of(buckets=buckets), [*SENTENCES, long]
    wanted = [slow_hash(words, LISTED) for words in sentences]
    np.testing.assert_allclose(encoder.encode(sentences, views="hash"), wanted, atol=1e-6)
    means = [encoder.word_vectors(words).mean(axis=0) for words in sentences]
    np.testing.assert_allclose(encoder.encode(sentences, views="bag"), means, atol=1e-6)
    batch = encoder.reader.parse([tuple(words) for words in SENTENCES], {"tokens"})
    for nodes in nodes_of(batch, encoder.inputs(batch, ["bag", "hash"])):  # they are the words
        assert [len(rows) for rows in nodes.states] == [7, 6, 1, 7] and nodes.tree == ""
    np.testing.assert_allclose(nodes.states[0][3], slow_word(SENTENCES[0][3]), atol=1e-6)


def test_views_are_added_scaled_kept_and_told(tmp_path: Path) -> None:
    encoder = encoder_of("seq")
    (part,) = encoder.members
    part.network = part.network.as_read(Reading("root", ("bag", "hash"), (1.0, 0.25, 3.0)))
    encoder.save(tmp_path / "m")
    encoder, before = MultiViewEncoder.load(tmp_path / "m", "cpu"), encoder_of()
    assert encoder.views == ["seq", "bag", "hash"]
    whole = encoder.encode(SENTENCES)
    parts = np.split(whole, [4, 10], axis=1)
    for part, view, scale in zip(parts, encoder.views, (1, 0.25, 3), strict=True):
        np.testing.assert_allclose(part, scale * before.encode(SENTENCES, views=view), atol=1e-5)
    np.testing.assert_array_equal(encoder.encode(SENTENCES, views="hash"), parts[2])
    encoder.save(tmp_path / "m")
    np.testing.assert_array_equal(MultiViewEncoder.load(tmp_path / "m", "cpu").encode(SENTENCES), whole)
    assert "seq 4 + bag 6 + hash 4096 = 4106 dimensions" in repr(encoder)
