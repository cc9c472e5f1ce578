"""Differences that settle a pair whatever its other numbers are, as nothing else differs.

Legend of dimension suffixes: n pairs, F numbers of a pair.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multiview.judge.weights import NUMBERS, Floats

MOST = 0.25
"""The greatest probability of a pair with such a difference."""
_FROM_TO = re.compile(
    r"\bfrom ((?:(?:the|my|our|a) )?[\w-]+) to ((?:(?:the|my|our|a) )?[\w-]+)", re.IGNORECASE
)
_STOP = re.compile(r"\b(stop|avoid) ([a-z]+?)ing\b")
_ENDING_E = re.compile(r"e\b")
_ONLY = re.compile(r"\bonly ", re.IGNORECASE)


def differs_in_one_thing(numbers_nF: Floats) -> NDArray[np.bool_]:
    """Tell which pairs differ by numbers alone, as many on either side, or by opposites alone: [n]."""
    of = dict(zip(NUMBERS, numbers_nF.T, strict=True))
    lone_n = np.rint(of["words alone"] ** 2)
    are_numbers_n = (of["numbers"] > 0) & (lone_n == 2 * of["numbers"])
    is_turned_n = (of["opposites"] > 0) & (of["agreeing"] == 0) & (of["moves"] == 0)
    is_turned_n &= (lone_n == 0) | (lone_n == 2 * of["opposites"])
    is_certain_n: NDArray[np.bool_] = are_numbers_n | is_turned_n
    return is_certain_n


def exchanged_or_limited(a: str, b: str) -> Sequence[tuple[str, str, str]]:
    """Return kind and words of what differs: from and to exchanged; *only*, or *stop*, on one side."""
    differences: list[tuple[str, str, str]] = []
    lower_texts = a.casefold(), b.casefold()
    if not any(word in text for word in ("from ", "only ", "stop ", "avoid ") for text in lower_texts):
        return differences  # as most pairs do
    way_a, way_b = _FROM_TO.search(a), _FROM_TO.search(b)
    if way_a and way_b and way_a[1].lower() == way_b[2].lower() != way_a[2].lower() == way_b[1].lower():
        differences.append(("roles", f"{way_a[1]} to {way_a[2]}", f"{way_b[1]} to {way_b[2]}"))
    bare_a, bare_b = (_ONLY.sub("", text).strip(" .!?").casefold() for text in (a, b))
    if bare_a == bare_b and bool(_ONLY.search(a)) != bool(_ONLY.search(b)):
        differences.append(("missing", "only" if _ONLY.search(a) else "", "only" if _ONLY.search(b) else ""))
    first, second = (_ENDING_E.sub("", text.strip(" .!?")) for text in lower_texts)  # share, sharing: shar
    for a_stops, stopped, other in ((True, first, second), (False, second, first)):
        if (found := _STOP.search(stopped)) and _STOP.sub(found[2], stopped) == other:
            differences.append(("missing", found[1] if a_stops else "", "" if a_stops else found[1]))
    return differences
