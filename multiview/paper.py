"""The presets ``paper`` and ``paper-2400``: where each value stands in the paper, and what a run changes.

Simoulin & Crabbé 2021, "Contrasting distinct structured views to learn sentence embeddings". The values are
in :mod:`multiview.config`. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.support.presets import Need, refuse_missing
from corpora.umbc import SOURCE as UMBC
from multiview.config import TrainConfig, options_of, preset

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache

PRESETS = ("paper", "paper-2400")
SENTENCES = 40_000_000
"""Of UMBC, section 3.1."""
DIMENSIONS = 4800
"""Of a sentence vector, table 1."""
GLOVE = "https://nlp.stanford.edu/projects/glove/ (glove.840B.300d)"
SECTIONS = {
    "views": "3.4, table 2",
    "words": "3.2",
    "vocabulary.size": "3.2",
    "vocabulary.vector-words": "3.2",
    "vocabulary.expand": "3.2",
    "table.init": "3.2",
    "table.dropout": "A.2",
    "encoder.forget-bias": "A.2",
    "encoder.pooling": "2.2",
    "objective.denominator": "2.1",
    "objective.score": "2.1, footnote 1",
    "objective.direction": "2.1",
    "objective.self-score": "2.1",
    "objective.negatives": "3.1",
    "optimiser.learning-rate": "A.2",
    "loop.batch": "A.2",
}
"""Options whose value the paper states, and where."""
READINGS = {
    "vocabulary.case": "words are cased; nothing is said of other spellings",
    "table.dim": "not printed for trained words; GloVe's size",
    "encoder.dim": "no hidden size is printed, only 4,800 dimensions in all",
    "objective.boundary": "batches are successive sentences; documents are not mentioned",
    "loop.epochs": "not printed",
    "loop.precision": "not printed",
}
"""Options that the paper leaves open, and why they are what they are."""
ABSENT = (
    "init",
    *("vocabulary.min-count", "vocabulary.buckets", "table.equal", "table.identity"),
    *("table.rate", "table.update"),
    *("encoder.recurrent-scale", "encoder.equal-inputs", "optimiser.warmup-steps", "optimiser.schedule"),
    *("optimiser.clip", "loop.segments", "loop.max-steps", "loop.max-minutes"),
    *("objective.temperature", "objective.learn-temperature", "objective.same", "objective.duplicates"),
    *("teacher.vectors", "teacher.contrast", "teacher.similarity", "teacher.temperature"),
    *("table.dropout-views", "validation.sentences", "validation.patience", "validation.select"),
)
"""Options for what the paper does not have: their values switch it off."""
UNSTATED = (
    "the context is one sentence on each side",
    "the order of batches is shuffled",
    "each view of trained words has a table of its own, fixed vectors are shared",
)
"""Further readings, which are no options."""


def refuse_incomplete(config: TrainConfig) -> None:
    """Refuse a run of the preset that lacks its trees or its vectors.

    Raises:
        UserError: all that is missing, with where it is published.
    """
    missing = []
    trees = config.trees is not None and (config.trees / "manifest.json").is_file()
    if not trees and not (config.trees is None and any(Path("runs/trees").glob("*/manifest.json"))):
        missing.append(
            Need(
                "--trees FOLDER",
                f"both trees of UMBC's first {SENTENCES:,} sentences",
                f"python -m parsing.run umbc --preset paper makes them (corpus: {UMBC})",
            )
        )
    if config.wants_vectors and not config.has_vectors:
        missing.append(Need("--vectors FILE", "300-dimensional GloVe vectors, 2M cased words or more", GLOVE))
    refuse_missing(config.preset, missing)


def summary(config: TrainConfig) -> str:
    """What a run of the preset trains, and what it changes of the paper's values."""
    models = {
        "both": "trained and fixed words",
        "trained": "trained words",
        "tuned": "tuned vectors",
        "fixed": "fixed vectors",
    }
    count = "2 models" if config.words == "both" else "1 model"
    lines = [
        f"paper      Simoulin & Crabbé 2021: {models[config.words]}, views {config.views}",
        f"dimensions {config.dimensions:,} = {count} x {len(config.view_list)} views x "
        f"{config.encoder.dim:,} (our reading: the paper prints {DIMENSIONS:,} and no hidden size)",
        *(f"reading    {name} {options_of(config)[name]}: {why}" for name, why in READINGS.items()),
        *(f"reading    {text}" for text in UNSTATED),
        *(f"deviates   {text}" for text in deviations(config)),
    ]
    return "\n".join(lines)


def deviations(config: TrainConfig) -> Iterator[str]:
    """Options that differ from the preset's, one line each."""
    wanted, given = options_of(preset(config.preset)), options_of(config)
    for name, section in SECTIONS.items():
        if given[name] != wanted[name]:
            yield f"{name} {given[name]}; the paper: {wanted[name]} (section {section})"
    for name in READINGS:
        if given[name] != wanted[name]:
            yield f"{name} {given[name]}; our reading of the paper: {wanted[name]}"
    for name in ABSENT:
        if given[name] != wanted[name]:
            yield f"{name} {given[name]}; the paper has nothing of the kind ({wanted[name]})"


def data_deviations(cache: TreeCache) -> Iterator[str]:
    """What differs of the paper's corpus and parsers, one line each.

    Args:
        cache: the trees of the run.
    """
    corpus = (cache.identity.get("corpus") or {}).get("name", "unknown")
    if corpus != "umbc" or len(cache) != SENTENCES:
        yield f"corpus {corpus}, {len(cache):,} sentences; the paper: UMBC, {SENTENCES:,} (section 3.1)"
    parsers = {
        "dependency": "a biaffine parser with BERT features (A.1)",
        "constituency": "the parser of Kitaev & Klein 2018 (2.2)",
    }
    for kind, wanted in parsers.items():
        name = str((cache.identity.get(kind) or {}).get("name", ""))
        if name.startswith("builtin"):
            yield f"{kind} parser {name}; the paper: {wanted}"
