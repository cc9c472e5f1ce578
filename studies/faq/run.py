"""The work behind ``studies.faq``: read the sets, encode, score every method, write the report."""

from __future__ import annotations

from dataclasses import replace

from corpora.ranking.faq import FaqSet, read_faq
from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_json, write_text
from senteval_runner.vectors.dry_run import encoding_dry_run
from senteval_runner.vectors.embed import as_vectors
from senteval_runner.vectors.encoders import resolve_encoder
from studies.faq.config import FaqConfig
from studies.faq.encoder import EncoderTuner, refuse_untunable
from studies.faq.evaluate import (
    SIDES,
    Tuner,
    Vectors,
    embed_faq,
    evaluate_faq,
    map_tuner,
    relevance,
    side_texts,
)
from studies.faq.report import figures, tables


def run(config: FaqConfig) -> None:
    """Score all methods on all sets; write and print the tables.

    Raises:
        UserError: bad options or sets.
    """
    _check(config)
    if config.dry_run:
        print(_dry_run(config))
        return
    sets = [read_faq(folder) for folder in dict.fromkeys(config.sets)]
    names = [faq.name for faq in sets]
    for faq in sets:
        if len(faq.queries) < 2:
            raise UserError(f"{faq.name}: needs two queries or more to split")
        if names.count(faq.name) > 1:
            raise UserError(f"two sets have the name {faq.name}; rename a folder")
    encoders = {spec: as_vectors(resolve_encoder(spec)) for spec in config.models}
    rows, vectors = [], {}
    for faq in sets:
        vectors[faq.name] = {name: embed_faq(faq, encode) for name, encode in encoders.items()}
        rows += evaluate_faq(
            faq,
            vectors[faq.name],
            _tuner(config, faq, vectors[faq.name]),
            seeds=config.seeds,
            train_fraction=config.train_fraction,
            sides=config.sides,
            label=", whole encoder" if config.tune == "encoder" else "",
        )
    results = {
        "config": config_to_json(config),
        "data_sha256": {
            str(p): sha256_file(p) for folder in config.sets for p in sorted(folder.glob("*.tsv*"))
        },
        "sets": {faq.name: {"entries": len(faq.entries), "queries": len(faq.queries)} for faq in sets},
        "rows": rows,
    }
    write_json(config.output / "results.json", results)
    page = tables(rows, sets)
    write_text(config.output / "tables.md", page.markdown())
    drawn = [section for faq in sets for section in figures(faq, vectors[faq.name])]
    write_text(config.output / "report.html", replace(page, sections=[*page.sections, *drawn]).html())
    print(page.markdown())
    print(f"{config.output}/report.html, results.json, tables.md")


def _check(config: FaqConfig) -> None:
    """Reject unusable options.

    Raises:
        UserError: one line that names the option.
    """
    if not config.sets:
        raise UserError("no FAQ set given; name a folder, or --chat with a table")
    if config.tune == "encoder":
        refuse_untunable(config.models)


def _dry_run(config: FaqConfig) -> str:
    """Estimate the encoding of queries and tables by every model."""
    sets = [read_faq(folder) for folder in config.sets]
    texts = [
        text
        for faq in sets
        for text in (*faq.queries.values(), *(t for side in SIDES for t in side_texts(faq, side)))
    ]
    return encoding_dry_run(
        config,
        {spec: resolve_encoder(spec) for spec in config.models},
        [text.split() for text in texts],
        facts={faq.name: f"{len(faq.entries)} entries, {len(faq.queries)} queries" for faq in sets},
        not_counted=f"{config.seeds} trainings of the {config.tune} per set, model, side, kind of negatives",
    )


def _tuner(config: FaqConfig, faq: FaqSet, vectors: Vectors) -> Tuner:
    """The tuner that the options choose."""
    relevant_QN = relevance(faq, list(faq.queries))
    if config.tune == "map":
        return map_tuner(vectors, relevant_QN, config.tuning)

    return EncoderTuner(
        faq.name,
        list(faq.queries.values()),
        {side: side_texts(faq, side) for side in config.sides},
        vectors,
        relevant_QN,
        config.encoder,
        config.output / "tuned",
        device=config.device,
        report=log_to(config.output).info,
    )
