"""The work behind ``studies.analogies build``: questions from facts and contexts, and a summary of them."""

from __future__ import annotations

from collections.abc import Sequence

from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_json
from multiview.words.vectors import load_word_vectors
from parsing.cache.reader import TreeCache
from senteval_runner.vectors.encoders import VECTOR_CACHE
from studies.analogies.build import build_questions
from studies.analogies.config import BuildConfig
from studies.analogies.contexts import collect_frames
from studies.analogies.questions import Question, write_questions


def build(config: BuildConfig) -> None:
    """Write the questions.

    Raises:
        UserError: the cache lacks one kind of trees.
    """
    cache = TreeCache.open(config.cache) if config.cache else None
    if cache is not None and not (cache.has("dep") and cache.has("const")):
        raise UserError(f"{config.cache}: needs dependency and constituency trees; parse with both")
    vectors = None if config.vectors is None else load_word_vectors(config.vectors, VECTOR_CACHE)
    frames, counts = collect_frames(cache, config.sentences)
    questions = build_questions(frames, vectors, seed=config.seed, limit=config.limit)
    path = config.output / "questions.tsv"
    write_questions(path, questions)
    lengths = mean_lengths(questions)
    write_json(
        config.output / "build.json",
        {
            "config": config_to_json(config),
            "cache": cache.identity if cache else None,
            "frames": dict(sorted(counts.items())),
            "questions": question_counts(questions),
            "mean_tokens": lengths,
            "questions_sha256": sha256_file(path),
        },
    )
    print(f"{path}: {len(questions):,} questions")
    for level, length in lengths.items():
        found = {key: n for key, n in counts.items() if f" {level} " in key}
        print(f"  {level:9}{length:6.2f} tokens on average   contexts: {found or 'the words alone'}")


def question_counts(questions: Sequence[Question]) -> dict[str, dict[str, int]]:
    """Questions by level and category."""
    counts: dict[str, dict[str, int]] = {}
    for q in questions:
        level = counts.setdefault(q.level, {})
        level[q.category] = level.get(q.category, 0) + 1
    return counts


def mean_lengths(questions: Sequence[Question]) -> dict[str, float]:
    """Mean number of tokens of a, b, c and the answer by level (UNI Table 2)."""
    lengths: dict[str, list[int]] = {}
    for q in questions:
        lengths.setdefault(q.level, []).extend(len(text.split()) for text in (q.a, q.b, q.c, q.answer))
    return {level: sum(values) / len(values) for level, values in lengths.items()}
