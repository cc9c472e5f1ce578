"""Semantic odd man out: a noun or verb replaced by another of the same tag.

The bigrams of the replacement with its two neighbours are about as frequent in the corpus as the original
ones, so that counting bigrams does not give the change away (Conneau et al. 2018).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from random import Random
from typing import Final

from senteval_runner.probing.structure import Annotated

TARGETS: Final = ("NN", "NNS", "VB", "VBD", "VBG", "VBN", "VBP", "VBZ")
MAX_LOG_RATIO: Final = 1.0
"""Bigram counts may differ by this much in natural logarithm."""


class BigramReplacer:
    """Finds fair replacements by the bigram counts of a corpus."""

    def __init__(self, sentences: Iterable[Annotated]) -> None:
        self.bigrams: Counter[tuple[str, str]] = Counter()
        self.after: dict[tuple[str, str], set[str]] = defaultdict(set)
        for a in sentences:
            words = [token.lower() for token in a.tokens]
            for left, right in itertools.pairwise(words):
                self.bigrams[left, right] += 1
            for left, word, tag in zip(words, words[1:], (a.sentence.tags or ())[1:], strict=False):
                if tag in TARGETS:
                    self.after[left, tag].add(word)

    def _near(self, old: tuple[str, str], new: tuple[str, str]) -> bool:
        count = self.bigrams.get(new, 0)
        return count > 0 and abs(math.log(count / self.bigrams[old])) <= MAX_LOG_RATIO

    def replace(self, a: Annotated, rng: Random) -> tuple[str, ...] | None:
        """The sentence with one word changed, or None if no word has a fair replacement."""
        words = [token.lower() for token in a.tokens]
        tags = a.sentence.tags or ()
        places = [j for j in range(1, len(words) - 1) if tags[j] in TARGETS]
        rng.shuffle(places)
        for j in places:
            left, word, right = words[j - 1 : j + 2]
            fair = [
                other
                for other in sorted(self.after[left, tags[j]])
                if other not in words
                and self._near((left, word), (left, other))
                and self._near((word, right), (other, right))
            ]
            if fair:
                return (*a.tokens[:j], rng.choice(fair), *a.tokens[j + 1 :])
        return None
