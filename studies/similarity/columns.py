"""Names of what is scored, and the averages over them; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Final

STS_TASKS: Final = ("STS12", "STS13", "STS14", "STS15", "STS16")
WORDS: Final = ("SimLex-999", "WS-353-sim", "WS-353-rel", "MEN", "SCWS")
"""The word sets of BURT's Table 3."""
STS_B: Final = "STSBenchmark (trained head)"
SICK_R: Final = "SICKRelatedness (trained head)"
PHRASES: Final = "PPDB phrases"
SEMEVAL: Final = "SemEval-2013 5(a)"
STS_AVERAGE: Final = "STS12-16"
SENTENCE_AVERAGE: Final = "sentences"
WORD_AVERAGE: Final = "words"
AVERAGES: Final[Mapping[str, tuple[str, ...]]] = {
    STS_AVERAGE: STS_TASKS,
    SENTENCE_AVERAGE: (*STS_TASKS, STS_B, SICK_R),
    WORD_AVERAGE: WORDS,
}
"""Table 4's STS*, and the Avg. of Tables 2 and 3."""


def with_averages(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores by column and the averages whose columns are all there: over some it would be another score."""
    found = dict(scores)
    for name, columns in AVERAGES.items():
        if set(columns) <= scores.keys():
            found[name] = fmean(scores[column] for column in columns)
    return found
