"""Score every model on every requested set, and write the tables."""

from __future__ import annotations

from dataclasses import dataclass, field

from corpora.pairs.phrases import read_semeval2013_5a
from corpora.pairs.similarity import SETS, find_set, published_files
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import write_json, write_text
from senteval_runner.report.page import Page, Section
from senteval_runner.report.table import Column, Table
from senteval_runner.vectors.embed import Encoder, as_vectors
from senteval_runner.vectors.encoders import resolve_encoder
from studies.similarity.config import SimilarityConfig
from studies.similarity.correlations import (
    Correlation,
    phrase_similarity,
    sentence_similarity,
    word_similarity,
)
from studies.similarity.phrases import PhraseScores, score_phrases


@dataclass(kw_only=True)
class Scores:
    """The scores of one model, and what could not be scored."""

    correlations: dict[str, Correlation] = field(default_factory=dict)
    classified: PhraseScores | None = None
    """SemEval-2013 5(a)."""
    missing: list[str] = field(default_factory=list)
    """Missing word sets."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why a sentence task has no score."""


def score_all(config: SimilarityConfig, encoder: Encoder) -> Scores:
    """Score the requested sets that exist."""
    scores = Scores()
    if config.words is not None:
        scores.correlations, scores.missing = word_similarity(encoder, config.words)
    if config.phrases is not None:
        found = phrase_similarity(encoder, config.phrases, config.held_out)
        scores.correlations["PPDB phrases"] = found
    if config.data is not None:
        sentences, scores.skipped = sentence_similarity(encoder, config.data, seed=config.seed)
        scores.correlations |= sentences
    if config.semeval2013 is not None:
        train, test = read_semeval2013_5a(config.semeval2013)
        scores.classified = score_phrases(
            as_vectors(encoder), train, test, nhid=config.nhid, seed=config.seed
        )
    return scores


def report(scored: dict[str, Scores]) -> Page:
    """Correlations, and SemEval-2013 5(a), a row per model; no section where nothing was scored."""
    sections = []
    sets = dict.fromkeys(name for scores in scored.values() for name in scores.correlations)
    if sets:
        found = {model: scores.correlations for model, scores in scored.items()}
        rows = [
            [model, *(by_set[name].spearman if name in by_set else None for name in sets)]
            for model, by_set in found.items()
        ]
        columns = [Column(name, digits=1, best="high") for name in sets]
        sections.append(Section("Spearman × 100", [Table(["model", *columns], rows)]))
    classified = {model: one for model, scores in scored.items() if (one := scores.classified)}
    if classified:
        names = ("accuracy", "F1", "accuracy by threshold", "F1 by threshold")
        rows = [
            [model, one.acc, one.f1, one.threshold_acc, one.threshold_f1] for model, one in classified.items()
        ]
        columns = [Column(name, best="high") for name in names]
        sections.append(Section("SemEval-2013 5(a), percent, test part", [Table(["model", *columns], rows)]))
    return Page("Similarity of words, phrases and sentences", sections)


def run(config: SimilarityConfig) -> None:
    """Score every model on every set that is there; print and write the tables.

    Raises:
        UserError: nothing to compare, or nothing could be scored.
    """
    _check(config)
    encoders = {model: resolve_encoder(model, seed=config.seed) for model in config.models}
    scored = {model: score_all(config, encoder) for model, encoder in encoders.items()}
    missing = next(iter(scored.values())).missing
    skipped: dict[str, str] = {}
    for scores in scored.values():  # missing files affect all models, bad vectors only one
        skipped |= scores.skipped
    missing_line = f"not found below {config.words}: {', '.join(missing)}" if missing else ""
    page = report(scored)
    if not page.sections:
        raise UserError("; ".join(filter(None, [missing_line, *skipped.values()])))
    write_json(
        config.output / "results.json",
        {
            "config": config_to_json(config),
            "missing": missing,
            "skipped": skipped,
            "results": {
                model: {name: vars(one) for name, one in scores.correlations.items()}
                for model, scores in scored.items()
            },
            "semeval2013_5a": {
                model: vars(scores.classified) for model, scores in scored.items() if scores.classified
            },
        },
    )
    write_text(config.output / "results.md", page.markdown())
    print(page.markdown(), end="")
    for line in filter(None, [missing_line, *(f"skipped {why}" for why in skipped.values())]):
        print(line)
    print(f"written: {config.output / 'results.json'}")


def _check(config: SimilarityConfig) -> None:
    """Reject wrong options and empty folders before a model is loaded."""
    if not config.models:
        raise UserError("name at least one model")
    if (config.words, config.data, config.phrases, config.semeval2013) == (None,) * 4:
        raise UserError(
            "nothing to compare: give --words FOLDER, --data FOLDER, --phrases FILE or --semeval2013 FOLDER"
        )
    if config.words is not None and not any(find_set(name, config.words) for name in SETS):
        examples = ", ".join(published_files(name)[0] for name in SETS)
        raise UserError(f"{config.words}: holds none of the word sets; expected e.g. {examples}")
