"""The work behind ``studies.analogies run``: score models on the questions and write the report."""

from __future__ import annotations

from dataclasses import asdict, replace

from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_json, write_text
from senteval_runner.vectors.embed import SentenceVectors, as_vectors
from senteval_runner.vectors.encoders import open_model
from studies.analogies.config import ScoreConfig
from studies.analogies.lexicon import Terms, read_google
from studies.analogies.questions import Question, read_questions
from studies.analogies.report import figures, tables
from studies.analogies.score import OpenScores, TextVectors, open_accuracy, score_analogies


def run(config: ScoreConfig) -> None:
    """Score the models and write the report.

    Raises:
        UserError: no model, or a file that cannot be read.
    """
    if not config.models:
        raise UserError("no model given; name one or more, see --help")
    questions = read_questions(config.questions)
    google = read_google(config.google) if config.google else {}
    vectors, scores, opened = {}, {}, {}
    for spec in config.models:
        encoder = open_model(spec, seed=config.random_seed)
        encode = as_vectors(encoder)
        vectors[spec] = TextVectors(questions, encode)
        scores[spec] = score_analogies(questions, vectors[spec])
        opened[spec] = open_scores(questions, encode, google)
    page = tables(scores, opened)
    write_text(config.output / "tables.md", page.markdown())
    drawn = figures(questions, scores, vectors)
    write_text(config.output / "report.html", replace(page, sections=[*page.sections, *drawn]).html())
    write_json(
        config.output / "results.json",
        {
            "config": config_to_json(config),
            "questions_sha256": sha256_file(config.questions),
            "models": {
                spec: {
                    **asdict(scores[spec]),
                    "open": {
                        name: {"accuracy": accuracy, "questions": count}
                        for name, (accuracy, count) in opened[spec].items()
                    },
                }
                for spec in config.models
            },
        },
    )
    print(page.markdown())
    print(f"{config.output}/report.html, results.json, tables.md")


def open_scores(
    questions: list[Question], encode: SentenceVectors, google: dict[str, list[Terms]]
) -> OpenScores:
    """Open-vocabulary accuracy of our word questions and of Google's, by category or section."""
    sets = {f"google {name}": rows for name, rows in google.items()}
    for q in questions:
        if q.level == "word":
            sets.setdefault(q.category, []).append((q.a, q.b, q.c, q.answer))
    words = sorted({word for rows in sets.values() for row in rows for word in row})
    vectors_WD = encode([word.split() for word in words])
    # The encoder does not know words with a zero vector.
    known = [i for i, vector in enumerate(vectors_WD) if vector.any()]
    kept = [words[i] for i in known]
    return {name: open_accuracy(rows, kept, vectors_WD[known]) for name, rows in sets.items()}
