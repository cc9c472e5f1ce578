"""EMP's Table 3 as published, to be set beside ours: nothing here was computed by this program."""

from __future__ import annotations

from collections.abc import Mapping

from senteval_runner.report.table import Cell
from studies.passages.metrics import METRICS

TITLE = (
    "Published, not computed here: Ma et al. 2019, Universal Text Representation from BERT: An Empirical "
    "Study, Table 3"
)
NOTE = (
    "Other candidates, splits and encoders may stand behind the published rows. The paper's R@k of Quasar-T "
    "and SearchQA stands under S@k, whether a relevant passage is among the first k: as a fraction of all "
    "relevant passages, of which most questions have several, R@1 could not reach 76."
)

Figures = tuple[float | None, float | None, float | None]
PRE_TRAINED, SNLI, IN_DOMAIN = (
    "Pre-trained BERT Embedding",
    "SNLI Fine-tuned BERT Embedding",
    "In-domain Fine-tuned BERT",
)
TABLE_3: Mapping[str, tuple[tuple[str, str, str], Mapping[str, Figures]]] = {
    "wikipassageqa": (
        ("map", "p@5", "p@10"),
        {
            "BM25": (53.7, 19.5, 11.5),
            "Memory-CNN-LSTM (Cohen et al. 2018)": (56.1, 20.8, 12.3),
            PRE_TRAINED: (55.0, 21.6, 13.7),
            SNLI: (52.5, 20.6, 12.8),
            IN_DOMAIN: (74.9, 27.2, 15.2),
        },
    ),
    "insuranceqa": (
        ("p@1", "p@5", "p@10"),
        {
            "BM25": (60.2, 19.5, 10.9),
            "SUBMULT+NN (Wang and Jiang 2016)": (75.6, None, None),
            "DSSM (Huang et al. 2013)": (30.3, None, None),
            PRE_TRAINED: (44.9, 17.6, 10.6),
            SNLI: (48.0, 18.5, 11.0),
            IN_DOMAIN: (78.3, 25.4, 13.7),
        },
    ),
    "quasar-t": (
        ("s@1", "s@5", "s@10"),
        {
            "BM25": (38.7, 59.2, 66.0),
            PRE_TRAINED: (48.6, 66.6, 71.7),
            SNLI: (49.3, 66.1, 71.0),
            IN_DOMAIN: (59.5, 70.9, 74.6),
        },
    ),
    "searchqa": (
        ("s@1", "s@5", "s@10"),
        {
            "BM25": (50.5, 83.3, 90.9),
            PRE_TRAINED: (66.2, 89.7, 95.0),
            SNLI: (66.8, 90.0, 95.1),
            IN_DOMAIN: (76.3, 93.0, 96.7),
        },
    ),
}
"""By data set: its metrics, and by model the figures; None is not published."""


def quoted(name: str) -> list[list[Cell]]:
    """The published rows of a data set under our columns; none of a set that the paper does not have.

    Args:
        name: of the set, as our reports call it.
    """
    metrics, rows = TABLE_3.get(name.lower(), ((), {}))
    found: list[list[Cell]] = []
    for model, figures in rows.items():
        by_metric = dict(zip(metrics, figures, strict=True))
        found.append([model, "", "", *(by_metric.get(metric) for metric in METRICS)])
    return found
