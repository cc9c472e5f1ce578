"""Score every model on every requested set, and write the tables."""

from __future__ import annotations

from corpora.pairs.phrases import read_semeval2013_5a
from corpora.pairs.similarity import SETS, find_set, published_files
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import write_json, write_text
from senteval_runner.vectors.embed import as_vectors
from studies.similarity.columns import PHRASES
from studies.similarity.config import SimilarityConfig
from studies.similarity.correlations import phrase_similarity, sentence_similarity, word_similarity
from studies.similarity.models import Model, models_of
from studies.similarity.phrases import score_phrases
from studies.similarity.published import PUBLISHED
from studies.similarity.report import Scores, report
from studies.similarity.tuning import fine_tuned


def score_all(config: SimilarityConfig, model: Model) -> Scores:
    """Score the requested sets that exist."""
    scores = Scores()
    encoder = model.encoder(config.seed)
    if config.words is not None:
        scores.correlations, scores.missing = word_similarity(encoder, config.words)
    if config.phrases is not None:
        scores.correlations[PHRASES] = phrase_similarity(encoder, config.phrases, config.held_out)
    if config.data is not None:
        sentences, scores.skipped = sentence_similarity(encoder, config.data, seed=config.seed)
        scores.correlations |= sentences
    if config.semeval2013 is not None:
        train, test = read_semeval2013_5a(config.semeval2013)
        scores.classified = score_phrases(
            as_vectors(encoder), train, test, nhid=config.nhid, seed=config.seed
        )
        if config.fine_tune and model.tunable:
            tower = model.tower(config.tune.max_length)
            scores.tuned = fine_tuned(tower, train, test, config.tune, config.seed)
    return scores


def run(config: SimilarityConfig) -> None:
    """Score every model on every set that is there; print and write the tables.

    Raises:
        UserError: nothing to compare, or nothing could be scored.
    """
    _check(config)
    scored = {model.name: score_all(config, model) for model in models_of(config)}
    missing = next(iter(scored.values())).missing
    skipped: dict[str, str] = {}
    for scores in scored.values():  # missing files affect all models, bad vectors only one
        skipped |= scores.skipped
    missing_line = f"not found below {config.words}: {', '.join(missing)}" if missing else ""
    page = report(scored, PUBLISHED[config.published] if config.published else {})
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
            "semeval2013_5a_fine_tuned": {
                model: vars(scores.tuned) for model, scores in scored.items() if scores.tuned
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
    if config.fine_tune and config.semeval2013 is None:
        raise UserError("--fine-tune needs --semeval2013 FOLDER")
    if config.words is not None and not any(find_set(name, config.words) for name in SETS):
        examples = ", ".join(published_files(name)[0] for name in SETS)
        raise UserError(f"{config.words}: holds none of the word sets; expected e.g. {examples}")
