"""Scores of BURT (Li & Zhao 2020) as printed in its Tables 2 to 4: quoted, not computed here.

Rows hold Spearman's correlation x 100, SemEval's accuracy in percent. The printed averages are left out: ours
are computed from the cells. (In Tables 2 and 3 those of BERT CLS and BERT MEAN stand in each other's row, and
in Table 4 that of NLI, 30.8, is not the mean of its cells, 43.1.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from studies.similarity.columns import PHRASES, SEMEVAL, SICK_R, STS_AVERAGE, STS_B, STS_TASKS, WORDS

Which = Literal["models", "ablation"]
Rows = Mapping[str, Mapping[str, float]]
"""Score by column, by name of the row."""

_MODEL_COLUMNS = (*STS_TASKS, STS_B, SICK_R, PHRASES, SEMEVAL, *WORDS)
_ABLATION_COLUMNS = (STS_AVERAGE, STS_B, SICK_R, PHRASES, SEMEVAL, *WORDS)


def _rows(columns: tuple[str, ...], text: str) -> Rows:
    """Rows of ``name: scores`` in the order of ``columns``."""
    rows = {}
    for line in text.strip().splitlines():
        name, _, scores = line.strip().rpartition(": ")
        rows[name] = dict(zip(columns, map(float, scores.split()), strict=True))
    return rows


PUBLISHED: Final[Mapping[Which, Rows]] = {
    "models": _rows(
        _MODEL_COLUMNS,
        """
        Avg. GloVe: 53.3 50.8 55.6 59.2 57.9 63.0 71.8 35.9 68.2 40.8 80.2 64.4 80.5 62.9
        Avg. FastText: 58.8 58.8 63.4 69.1 68.2 68.3 73.0 32.2 68.9 50.3 83.4 73.4 84.6 69.4
        SkipThought: 44.3 30.7 39.1 46.7 54.2 73.7 79.2 37.1 66.4 35.1 61.3 42.2 57.9 58.4
        InferSent-2: 62.9 56.1 66.4 74.0 72.9 78.5 83.1 36.3 78.2 55.9 71.1 44.4 77.4 61.4
        GenSen LAST: 60.9 55.6 62.8 73.5 66.6 78.6 82.6 48.6 64.3 50.0 56.0 34.0 59.3 59.0
        BERT CLS: 32.5 24.0 28.5 35.5 51.1 50.4 64.2 30.2 75.9 7.3 23.1 1.8 19.1 28.1
        BERT MAX: 47.9 45.3 52.6 60.8 60.9 61.3 71.2 44.9 77.0 16.7 30.7 14.6 26.8 34.5
        BERT MEAN: 50.1 52.9 54.9 63.4 64.9 64.5 73.5 42.8 71.2 13.1 3.0 11.2 21.8 23.2
        ALBURT: 67.2 72.6 71.4 77.8 73.5 79.7 83.5 66.7 75.9 59.6 73.9 61.0 69.5 63.9
        BURT: 69.9 73.7 72.8 78.5 73.6 84.3 84.8 70.6 79.3 60.8 71.5 55.7 68.5 62.3
        """,
    ),
    "ablation": _rows(
        _ABLATION_COLUMNS,
        """
        NLI: 73.5 85.4 85.2 31.5 77.3 57.9 24.9 30.0 55.1 47.6
        NLI+PI: 73.0 82.7 84.7 40.4 77.3 59.6 69.4 57.4 67.0 64.4
        NLI+PTC: 72.4 84.2 84.9 76.9 78.3 41.2 56.1 30.0 48.4 55.4
        NLI+PI+PTC: 73.7 84.3 84.8 70.6 79.3 60.8 71.5 55.7 68.5 62.3
        CLS: 71.2 82.6 85.0 68.1 78.1 48.0 63.5 42.8 62.7 57.3
        MAX: 72.3 78.5 83.6 68.5 77.6 52.4 64.6 46.0 62.0 61.0
        MEAN: 73.7 84.3 84.8 70.6 79.3 60.8 71.5 55.7 68.5 62.3
        [u; v]: 38.2 77.6 81.0 31.3 69.2 7.8 12.5 8.9 19.6 22.8
        [|u−v|]: 56.6 84.2 84.1 41.5 76.9 50.8 51.6 22.4 49.0 53.9
        [u∗v]: 67.1 81.7 84.2 70.2 75.2 51.4 62.8 42.8 62.9 58.3
        [u; v; |u−v|]: 73.7 84.3 84.8 70.6 79.3 60.8 71.5 55.7 68.5 62.3
        [u; v; u∗v]: 70.2 83.5 84.6 62.3 77.4 53.0 69.0 52.4 64.3 59.3
        [|u−v|; u∗v]: 70.7 83.4 84.8 69.7 77.3 50.3 71.5 46.3 61.0 58.2
        [u; v; |u−v|; u∗v]: 71.9 84.0 85.0 62.3 78.0 52.1 64.7 42.9 63.5 58.6
        k = 1: 73.3 84.1 85.2 60.6 78.2 60.4 54.6 45.7 61.3 58.9
        k = 3: 73.7 84.3 84.8 70.6 79.3 60.8 71.5 55.7 68.5 62.3
        k = 5: 72.5 83.1 84.9 72.3 77.3 54.6 64.6 48.4 63.5 59.8
        k = 7: 71.9 83.1 84.5 69.9 77.9 59.3 68.8 50.9 66.7 60.6
        """,
    ),
}
