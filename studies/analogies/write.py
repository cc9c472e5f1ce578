"""The work behind ``studies.analogies build``: questions from facts and contexts, and a summary of them."""

from __future__ import annotations

from collections.abc import Sequence

from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_json
from corpora.support.presets import Need, refuse_missing
from multiview.words.vectors import load_word_vectors
from parsing.cache.reader import TreeCache
from senteval_runner.report.table import Cell, Column, Table
from senteval_runner.vectors.bags import VECTOR_CACHE
from studies.analogies.build import build_questions
from studies.analogies.config import BuildConfig
from studies.analogies.contexts import collect_frames
from studies.analogies.lexicon import CATEGORIES, LEVELS, read_google
from studies.analogies.questions import Question, write_questions
from studies.analogies.rank import Ranking

SOURCES = {
    "google": ("Google's questions-words.txt", "https://github.com/tmikolov/word2vec"),
    "cache": ("English Wikipedia, parsed by parsing.run", "https://dumps.wikimedia.org/enwiki/latest"),
    "vectors": ("GloVe", "https://nlp.stanford.edu/projects/glove"),
}
"""What UNI makes its questions from, by option, and where it is published."""


def check_inputs(config: BuildConfig) -> None:
    """Refuse a build whose inputs are not all given.

    Raises:
        UserError: one line that names what is missing and where it is published.
    """
    if config.preset == "paper":
        given = {name: getattr(config, name) for name in SOURCES}
        refuse_missing(
            "paper",
            [
                Need(
                    option=f"--{name} {path or 'PATH'}",
                    what=SOURCES[name][0],
                    where=SOURCES[name][1],
                    here=path is not None and path.exists(),
                )
                for name, path in given.items()
            ],
        )
    if config.candidates == "vocabulary" and config.vectors is None:
        raise UserError(
            "--candidates vocabulary needs --vectors: the wrong answers are its nearest words "
            f"(UNI: {SOURCES['vectors'][0]}, {SOURCES['vectors'][1]}); --candidates category does without"
        )


def build(config: BuildConfig) -> None:
    """Write the questions.

    Raises:
        UserError: an input is missing, or the cache lacks one kind of trees.
    """
    check_inputs(config)
    google = None if config.google is None else read_google(config.google)
    if google is not None and not any(category.google in google for category in CATEGORIES.values()):
        raise UserError(f"{config.google}: has none of the sections of questions-words.txt")
    cache = TreeCache.open(config.cache) if config.cache else None
    if cache is not None and not (cache.has("dep") and cache.has("const")):
        raise UserError(f"{config.cache}: needs dependency and constituency trees; parse with both")
    ranking = None if config.vectors is None else Ranking(load_word_vectors(config.vectors, VECTOR_CACHE))
    frames, counts = collect_frames(cache, config.sentences)
    questions = build_questions(
        frames,
        ranking,
        google=google,
        whole=config.candidates == "vocabulary",
        shared=config.contexts == "shared",
        seed=config.seed,
        limit=config.limit,
    )
    path = config.output / "questions.tsv"
    write_questions(path, questions)
    lengths = mean_lengths(questions)
    write_json(
        config.output / "build.json",
        {
            "config": config_to_json(config),
            "cache": cache.identity if cache else None,
            "google_sha256": sha256_file(config.google) if config.google else None,
            "frames": dict(sorted(counts.items())),
            "questions": question_counts(questions),
            "mean_tokens": lengths,
            "questions_sha256": sha256_file(path),
        },
    )
    print(f"{path}: {len(questions):,} questions")
    print(f"contexts: {', '.join(f'{key} {n}' for key, n in sorted(counts.items()))}")
    print(length_table(questions).markdown())


def question_counts(questions: Sequence[Question]) -> dict[str, dict[str, int]]:
    """Questions by level and category."""
    counts: dict[str, dict[str, int]] = {}
    for q in questions:
        level = counts.setdefault(q.level, {})
        level[q.category] = level.get(q.category, 0) + 1
    return counts


def mean_lengths(questions: Sequence[Question]) -> dict[str, dict[str, float]]:
    """Mean number of tokens of a, b, c and the answer by level and category (UNI Table 2)."""
    lengths: dict[str, dict[str, list[int]]] = {}
    for q in questions:
        of_category = lengths.setdefault(q.level, {}).setdefault(q.category, [])
        of_category.extend(len(text.split()) for text in (q.a, q.b, q.c, q.answer))
    return {
        level: {name: sum(found) / len(found) for name, found in by_category.items()}
        for level, by_category in lengths.items()
    }


def length_table(questions: Sequence[Question]) -> Table:
    """By category: the number of word questions, and our mean lengths beside UNI's (Table 2)."""
    counts, lengths = question_counts(questions), mean_lengths(questions)
    columns = [Column(f"{level}{whose}", digits=1) for level in LEVELS[1:] for whose in ("", ", UNI")]
    rows: list[list[Cell]] = []
    for name, number in counts["word"].items():
        contexts = CATEGORIES[name].contexts
        row: list[Cell] = [name, number]
        for level in LEVELS[1:]:
            row += [lengths[level][name], contexts.tokens[level]] if contexts else [None, None]
        rows.append(row)
    return Table(["category", "questions", *columns], rows, title="Mean tokens")
