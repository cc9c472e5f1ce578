"""``--dry-run`` of ``build``: contexts of the first sentences, the first word vectors, some questions."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.support.dry_run import Work, dry_run_text, rate
from studies.analogies.build import Ranking, build_questions, word_questions
from studies.analogies.contexts import collect_frames
from studies.analogies.lexicon import CATEGORIES, LEVELS
from studies.analogies.questions import question_line

if TYPE_CHECKING:
    from multiview.words.vectors import WordVectors
    from parsing.cache.reader import TreeCache

SAMPLE_SENTENCES = 2000
SAMPLE_QUESTIONS = 20
"""Per category and level."""
SAMPLE_WORDS = 10_000


def dry_run(
    config: Any, cache: TreeCache | None, vectors: Path | None, *, sentences: int, limit: int | None
) -> str:
    """What building the questions would take.

    Args:
        config: options of the command.
        cache: tree cache of the contexts.
        vectors: file of word vectors.
        sentences: of the cache to read at most.
        limit: questions per category and level at most.
    """
    work = []
    frames, _ = collect_frames(None, 0)
    if cache is not None:
        units = min(sentences, len(cache))
        parts = [min(units, SAMPLE_SENTENCES // 5), min(units, SAMPLE_SENTENCES)]
        per_s = rate(lambda part: bool(collect_frames(cache, part)) and part, parts)
        work.append(Work(name="contexts", units=units, unit="sentences", per_s=per_s))
    loaded: WordVectors | None = None
    if vectors is not None:
        loaded, reading = _first_vectors(vectors)
        work.append(reading)
    size = 0.0

    def some_questions(number: int) -> int:
        nonlocal size
        made = build_questions(
            frames, loaded, seed=number, limit=min(SAMPLE_QUESTIONS, limit or SAMPLE_QUESTIONS)
        )
        size = sum(len(question_line(q).encode()) + 1 for q in made) / len(made)
        return len(made)

    words = (word_questions(category, Ranking(None), 0, limit) for category in CATEGORIES.values())
    total = len(LEVELS) * sum(map(len, words))
    work.append(Work(name="questions", units=total, unit="questions", per_s=rate(some_questions, range(3))))
    return dry_run_text(config, disk_bytes=size * total, work=work)


def _first_vectors(path: Path) -> tuple[WordVectors, Work]:
    """The first vectors of a file, converted in a temporary folder, and how fast that was."""
    from multiview.words.vectors import load_word_vectors

    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        loaded = load_word_vectors(path, Path(scratch), SAMPLE_WORDS)
    per_s = len(loaded.words) / (time.perf_counter() - began)
    whole = len(loaded.words) if len(loaded.words) < SAMPLE_WORDS else None
    return loaded, Work(name="vectors", units=whole, unit="words", per_s=per_s)
