"""A FAQ set as encoders see it, and how rankings of its entries are measured.

Legend: Q queries, N entries, D embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.faq import FaqSet
from corpora.ranking.lexical import Scores
from corpora.support.errors import UserError
from corpora.support.files import json_digest
from senteval_runner.protocol.features import unit
from senteval_runner.vectors.embed import SentenceVectors


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """A set; the tokens of its texts are joined by one space."""

    name: str
    queries: list[str]
    questions: list[str]
    answers: list[str]
    relevant_QN: NDArray[np.bool_]
    """Which entries answer which query."""
    train: NDArray[np.int64]
    """Rows of the training queries."""
    test: NDArray[np.int64]

    @classmethod
    def of(cls, faq: FaqSet) -> Data:
        """A set whose files fix who trains and who tests.

        Raises:
            UserError: they do not.
        """
        if faq.train is None:
            raise UserError(f"{faq.name}: no queries-train.tsv and queries-test.tsv")

        def texts(given: Sequence[str]) -> list[str]:
            return [" ".join(text.split()) for text in given]

        trains = np.array([query in faq.train for query in faq.queries])
        return cls(
            name=faq.name,
            queries=texts(list(faq.queries.values())),
            questions=texts([entry.question for entry in faq.entries]),
            answers=texts([entry.answer for entry in faq.entries]),
            relevant_QN=np.array([[e.doc_id in faq.relevant[q] for e in faq.entries] for q in faq.queries]),
            train=np.flatnonzero(trains),
            test=np.flatnonzero(~trains),
        )

    @cached_property
    def digest(self) -> str:
        """Of everything in it."""
        rows = [np.flatnonzero(self.relevant_QN).tolist(), self.train.tolist()]
        return json_digest([self.queries, self.questions, self.answers, *rows], 20)

    def embed(self, encode: SentenceVectors) -> dict[str, NDArray[np.floating]]:
        """Unit vectors of ``query`` [Q, D], ``question`` and ``answer`` [N, D]."""
        texts = {"query": self.queries, "question": self.questions, "answer": self.answers}
        return {name: unit(encode([text.split() for text in group])) for name, group in texts.items()}

    def measure(self, scores_QN: Scores) -> dict[str, float]:
        """``accuracy`` (Success@1) and ``mrr`` of the first relevant entry; equal scores rank in table order.

        Args:
            scores_QN: of the test queries and all entries.
        """
        order_QN = np.argsort(-scores_QN, axis=1, kind="stable")
        rank_Q = np.take_along_axis(self.relevant_QN[self.test], order_QN, axis=1).argmax(axis=1)
        return {"accuracy": float((rank_Q == 0).mean()), "mrr": float((1 / (rank_Q + 1)).mean())}
