"""Which subtrees of two sentences match best.

Pairs are ranked by the cosine of their vectors times the square root of the words of the smaller subtree, so
that of two pairs about as close the larger one comes first. The best pair is taken, then the best of those
that are left, and so on:

- a subtree is in one match at most;
- a pair inside a match, on both sides, says nothing new and is left out;
- so are the two whole sentences, whose cosine is shown anyway, pairs whose cosine is not positive, and what
  the caller calls trivial: two equal words, a punctuation mark.

Legend of dimension suffixes: N subtrees of the first sentence, M of the second, W words of the sentence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def best_matches(
    cosine_NM: NDArray[np.floating],
    covers_NW: NDArray[np.bool_],
    covers_MW: NDArray[np.bool_],
    trivial_NM: NDArray[np.bool_],
    top: int,
) -> list[tuple[int, int]]:
    """The matches, best first; of equal ones the first in row order.

    Args:
        cosine_NM: [N, M], cosine of every pair of subtrees.
        covers_NW: bool [N, W], whether a word is under a subtree of the first sentence.
        covers_MW: bool [M, W], the same for the second; its W is another.
        trivial_NM: bool [N, M], pairs to leave out.
        top: matches at most.
    """
    size_N, size_M = covers_NW.sum(1), covers_MW.sum(1)
    score_NM = cosine_NM * np.sqrt(np.minimum(size_N[:, None], size_M))
    whole_NM = (size_N == covers_NW.shape[1])[:, None] & (size_M == covers_MW.shape[1])
    score_NM[whole_NM | trivial_NM | (cosine_NM <= 0)] = 0
    matches: list[tuple[int, int]] = []
    while len(matches) < top and score_NM.size:
        one, other = divmod(int(score_NM.argmax()), score_NM.shape[1])
        if score_NM[one, other] <= 0:
            break
        matches.append((one, other))
        score_NM[one], score_NM[:, other] = 0, 0
        inside_N = ~(covers_NW & ~covers_NW[one]).any(1)
        inside_M = ~(covers_MW & ~covers_MW[other]).any(1)
        score_NM[np.ix_(inside_N, inside_M)] = 0
    return matches
