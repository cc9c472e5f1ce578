"""``--chat``: answer typed questions with the best entry of a FAQ table."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from corpora.ranking.faq import read_entries
from senteval_runner.vectors.embed import as_vectors
from senteval_runner.vectors.encoders import resolve_encoder
from studies.faq.rank import bm25, cosines


def answer_questions(table: Path, models: Sequence[str], lines: Iterable[str]) -> None:
    """Print the best entry for every line; an empty line ends.

    Args:
        table: a FAQ table.
        models: the encoder that finds entries, or none for BM25.
        lines: the typed questions.
    """
    entries = read_entries(table)
    questions = [entry.question for entry in entries]
    encoders = [as_vectors(resolve_encoder(spec)) for spec in models]
    prompt = "? " if sys.stdin.isatty() else ""
    print(f"{len(entries)} entries; an empty line ends", file=sys.stderr)
    print(prompt, end="", flush=True)
    for line in lines:
        query = line.strip()
        if not query:
            break
        scores = cosines(encoders[0], [query], questions)[0] if encoders else bm25([query], questions)[0]
        best = entries[int(scores.argmax())]
        print(f"{best.question}  ({scores.max():.2f})\n{best.answer}\n{prompt}", end="", flush=True)
