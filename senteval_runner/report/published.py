"""Published SentEval scores to compare ours with: nothing here was computed by this program.

Source of every row: tables 1 to 3 of Simoulin & Crabbé, "Contrasting distinct structured views to learn
sentence embeddings" (EACL SRW 2021). Rows of other models are quoted there from the papers named with them.
The published averages of the view pairs equal :func:`senteval_runner.report.tables.paper_average` of their
rows, which a test checks.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "Simoulin & Crabbé 2021 (EACL SRW), tables 1 to 3"
NOTE = (
    "Published rows are quoted, not computed here: other training data, sizes and library versions, so "
    f"tenths mean nothing. Source: {SOURCE}."
)


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One row of the paper's tables."""

    model: str
    quoted_from: str
    """Paper that the scores come from."""
    dim: str
    """Dimensions of a sentence vector, as printed."""
    hours: str
    """Hours of training, as printed."""
    scores: tuple[float | None, ...]
    """MR CR SUBJ MPQA TREC, MRPC accuracy and F1, SICK-R r, ρ, MSE; times 100. None: not published."""


def _row(model: str, quoted_from: str, dim: str, hours: str, scores: str) -> PublishedRow:
    values = tuple(None if score == "-" else float(score) for score in scores.split())
    return PublishedRow(model=model, quoted_from=quoted_from, dim=dim, hours=hours, scores=values)


OWN = "Simoulin & Crabbé 2021"
SBERT = f"Reimers & Gurevych 2019; SICK-R: {OWN}"
SENTEVAL: tuple[PublishedRow, ...] = (
    _row("FastSent", "Hill et al. 2016", "≤ 500", "2", "70.8 78.4 88.7 80.6 76.8 72.2 80.3 - - -"),
    _row("FastSent + AE", "Hill et al. 2016", "≤ 500", "2", "71.8 76.7 88.8 81.5 80.4 71.2 79.1 - - -"),
    _row(
        "Skip-Thought",
        "Kiros et al. 2015",
        "4800",
        "336",
        "76.5 80.1 93.6 87.1 92.2 73.0 82.0 85.8 79.2 26.9",
    ),
    _row("Skip-Thought + LN", "Ba et al. 2016", "4800", "672", "79.4 83.1 93.7 89.3 - - - 85.8 78.8 27.0"),
    _row(
        "QuickThought",
        "Logeswaran & Lee 2018",
        "4800",
        "11",
        "80.4 85.2 93.9 89.4 92.8 76.9 84.0 86.8 80.1 25.6",
    ),
    _row("InferSent", "Conneau et al. 2017", "4096", "–", "81.1 86.3 92.4 90.2 88.2 76.2 83.1 88.4 - -"),
    _row("DisSent Books 5", "Nie et al. 2019", "4096", "–", "80.2 85.4 93.2 90.2 91.2 76.1 - 84.5 - -"),
    _row("DisSent Books 8", "Nie et al. 2019", "4096", "–", "79.8 85.0 93.4 90.5 93.0 76.1 - 85.4 - -"),
    _row("BERT-base [CLS]", SBERT, "768", "96", "78.7 84.9 94.2 88.2 91.4 71.1 - 75.7 - -"),
    _row("BERT-base [NLI]", SBERT, "768", "96", "83.6 89.4 94.4 89.9 89.6 76.0 - 84.4 - -"),
    _row("SEQ, CONST", OWN, "4800", "41", "79.8 82.9 94.6 88.5 90.4 76.4 83.7 86.1 78.9 26.3"),
    _row("DEP, SEQ", OWN, "4800", "27", "79.7 82.2 94.4 88.6 91.0 77.9 84.4 86.6 79.8 25.5"),
    _row("DEP, CONST", OWN, "4800", "39", "80.7 83.6 94.9 89.2 92.6 76.8 83.6 87.0 80.3 24.8"),
)
"""The table of results with a fixed sentence encoder."""
CONTROLS: tuple[PublishedRow, ...] = (
    _row("QuickThought on UMBC", OWN, "4800", "–", "80.9 84.4 95.1 88.9 92.2 75.8 - 86.0 - -"),
    _row("BERT-base [CLS], run again", OWN, "768", "–", "77.3 81.3 92.7 85.0 80.2 69.9 - 61.0 - -"),
    _row("BERT-base [CLS], projected", OWN, "4096", "–", "77.1 82.6 93.1 85.9 80.8 71.3 - 71.0 - -"),
    _row(
        "random LSTM", "Wieting & Kiela 2019", "not printed", "–", "77.2 78.7 91.9 87.9 86.5 74.1 - 86.0 - -"
    ),
)
"""The table of controls: pre-training corpus (40M sentences), embedding size, random encoder."""
PAIR_AVERAGES: dict[str, float] = {
    "CONST, CONST": 84.4,
    "DEP, DEP": 84.6,
    "SEQ, SEQ": 84.9,
    "SEQ, CONST": 85.1,
    "SEQ, DEP": 85.3,
    "DEP, CONST": 86.0,
}
"""Average SentEval score per pair of views."""
