"""Analogies of words, phrases and sentences.

    python -m studies.analogies build --cache runs/trees/brown --vectors glove.txt \
        --output runs/analogies/data
    python -m studies.analogies run MODEL [A+B ...] --questions runs/analogies/data/questions.tsv

``build`` makes the questions (UNI Table 3) from the project's facts and the contexts of a tree cache:
``questions.tsv``, ``build.json`` (options, tree cache, counts, mean lengths). ``run`` scores models on them
(UNI Tables 4 and 6): ``results.json``, ``tables.md``, ``report.html``. Models are named as in
``senteval_runner.run``.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from corpora.support.cli import Command, Commands
from corpora.support.config import configuration

if TYPE_CHECKING:
    from senteval_runner.vectors.embed import SentenceVectors
    from studies.analogies.questions import Question


@configuration
class BuildConfig:
    """Options of ``build``."""

    output: Path = Path("runs/analogies/data")
    """Folder for questions.tsv and build.json."""
    cache: Path | None = None
    """Tree cache with both kinds of trees whose contexts are used; none: hand-made contexts alone."""
    vectors: Path | None = None
    """Word vectors for the ranking of wrong answers; none: they are drawn by seed."""
    sentences: int = 100_000
    """Sentences of the cache to read at most."""
    limit: int | None = None
    """Questions per category and level at most; none: as many as UNI's Table 3."""
    seed: int = 0
    """Of the draw of questions, contexts and candidates."""
    dry_run: bool = False
    """Print the configuration and an estimate of time and disk from small parts; write nothing."""


def build(config: BuildConfig) -> None:
    """Write the questions."""
    from corpora.support.config import config_to_json
    from corpora.support.errors import UserError
    from corpora.support.files import sha256_file, write_json
    from parsing.cache.reader import TreeCache
    from studies.analogies.build import build_questions
    from studies.analogies.contexts import collect_frames
    from studies.analogies.questions import write_questions

    if config.sentences < 1 or (config.limit is not None and config.limit < 1):
        raise UserError("--sentences and --limit are at least 1")
    cache = TreeCache.open(config.cache) if config.cache else None
    if cache is not None and not (cache.has("dep") and cache.has("const")):
        raise UserError(f"{config.cache}: needs dependency and constituency trees; parse with both")
    if config.dry_run:
        from studies.analogies.estimate import dry_run

        print(dry_run(config, cache, config.vectors, sentences=config.sentences, limit=config.limit))
        return
    vectors = None
    if config.vectors is not None:
        from multiview.words.vectors import load_word_vectors
        from senteval_runner.vectors.encoders import VECTOR_CACHE

        vectors = load_word_vectors(config.vectors, VECTOR_CACHE)
    frames, counts = collect_frames(cache, config.sentences)
    questions = build_questions(frames, vectors, seed=config.seed, limit=config.limit)
    path = config.output / "questions.tsv"
    write_questions(path, questions)
    summary: dict[str, Any] = {
        "config": config_to_json(config),
        "cache": cache.identity if cache else None,
        "frames": dict(sorted(counts.items())),
        "questions": question_counts(questions),
        "mean_tokens": mean_lengths(questions),
        "questions_sha256": sha256_file(path),
    }
    write_json(config.output / "build.json", summary)
    print(f"{path}: {len(questions):,} questions")
    for level, length in summary["mean_tokens"].items():
        found = {key: n for key, n in counts.items() if f" {level} " in key}
        print(f"  {level:9}{length:6.2f} tokens on average   contexts: {found or 'the words alone'}")


def question_counts(questions: list[Question]) -> dict[str, dict[str, int]]:
    """Questions by level and category."""
    counts: dict[str, dict[str, int]] = {}
    for q in questions:
        level = counts.setdefault(q.level, {})
        level[q.category] = level.get(q.category, 0) + 1
    return counts


def mean_lengths(questions: list[Question]) -> dict[str, float]:
    """Mean number of tokens of a, b, c and the answer by level (UNI Table 2)."""
    lengths: dict[str, list[int]] = {}
    for q in questions:
        lengths.setdefault(q.level, []).extend(len(text.split()) for text in (q.a, q.b, q.c, q.answer))
    return {level: sum(values) / len(values) for level, values in lengths.items()}


@configuration
class RunConfig:
    """Options of ``run``."""

    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL...")]
    """Model folders or names, word-vector files, random:dep,const; A+B puts vectors side by side."""
    questions: Path = Path("runs/analogies/data/questions.tsv")
    """Questions that ``build`` wrote."""
    output: Path = Path("runs/analogies/report")
    """Folder for results.json, tables.md and report.html."""
    google: Path | None = None
    """Google's questions-words.txt: open-vocabulary 3CosAdd over the words of the file, by section."""
    normalize_parts: bool = False
    """Scale the parts of A+B to length 1 first."""
    seed: int = 0
    """Of random encoders."""
    dry_run: bool = False
    """Print the configuration and an estimate of the encoding's time from some texts; write nothing."""


def run(config: RunConfig) -> None:
    """Score the models and write the report."""
    from corpora.support.config import config_to_json
    from corpora.support.errors import UserError
    from corpora.support.files import sha256_file, write_json, write_text
    from senteval_runner.vectors.embed import as_vectors
    from senteval_runner.vectors.encoders import resolve_encoder
    from studies.analogies import report
    from studies.analogies.lexicon import read_google
    from studies.analogies.questions import read_questions
    from studies.analogies.score import TextVectors, score_analogies

    if not config.models:
        raise UserError("no model given; name one or more, see --help")
    questions = read_questions(config.questions)
    google = read_google(config.google) if config.google else {}
    if config.dry_run:
        from senteval_runner.vectors.estimate import encoding_dry_run

        texts = [text for q in questions for text in (q.a, q.b, q.c, *q.candidates)]
        texts += [word for rows in google.values() for row in rows for word in row]
        encoders = {spec: resolve_encoder(spec, seed=config.seed) for spec in config.models}
        print(encoding_dry_run(config, encoders, [text.split() for text in texts]))
        return
    vectors, scores, opened = {}, {}, {}
    for spec in config.models:
        encoder = resolve_encoder(spec, seed=config.seed, normalize_parts=config.normalize_parts)
        encode = as_vectors(encoder)
        vectors[spec] = TextVectors(questions, encode)
        scores[spec] = score_analogies(questions, vectors[spec])
        opened[spec] = _open(questions, encode, google)
    tables = [
        report.markdown(report.ACCURACY_HEADERS, report.accuracy_rows(scores)),
        report.markdown(report.TRANSFER_HEADERS, report.transfer_rows(scores)),
        report.markdown(("open vocabulary", "section", "%", "questions"), _open_rows(opened)),
    ]
    write_text(config.output / "tables.md", "\n".join(tables))
    write_text(config.output / "report.html", report.page(questions, scores, vectors))
    results: dict[str, Any] = {
        "config": config_to_json(config),
        "questions_sha256": sha256_file(config.questions),
        "models": {spec: {**asdict(scores[spec]), "open": opened[spec]} for spec in config.models},
    }
    write_json(config.output / "results.json", results)
    print("\n".join(tables))
    print(f"{config.output}/report.html, results.json, tables.md")


def _open(
    questions: list[Question], encode: SentenceVectors, google: dict[str, list[tuple[str, str, str, str]]]
) -> dict[str, dict[str, float]]:
    """Open-vocabulary accuracy of our word questions and of Google's, by category or section."""
    from studies.analogies.score import open_accuracy

    sets = {f"google {name}": rows for name, rows in google.items()}
    for q in questions:
        if q.level == "word":
            sets.setdefault(q.category, []).append((q.a, q.b, q.c, q.answer))
    words = sorted({word for rows in sets.values() for row in rows for word in row})
    vectors = encode([word.split() for word in words])
    # A zero vector is a word the encoder does not know.
    known = [i for i, vector in enumerate(vectors) if vector.any()]
    kept = [words[i] for i in known]
    found = {name: open_accuracy(rows, kept, vectors[known]) for name, rows in sets.items()}
    return {name: {"accuracy": share, "questions": count} for name, (share, count) in found.items()}


def _open_rows(opened: dict[str, dict[str, dict[str, float]]]) -> list[list[Any]]:
    return [
        [spec, name, 100 * row["accuracy"], int(row["questions"])]
        for spec, rows in opened.items()
        for name, row in rows.items()
    ]


cli = Commands(
    {
        "build": Command(
            BuildConfig, build, "studies.analogies build", "build the questions from facts and a tree cache."
        ),
        "run": Command(RunConfig, run, "studies.analogies run", "score models."),
    },
    "studies.analogies",
    "Analogies of words, phrases and sentences:",
)


if __name__ == "__main__":
    sys.exit(cli())
