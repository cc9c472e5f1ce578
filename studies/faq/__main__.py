"""FAQ retrieval: BM25, TF-IDF and encoders, frozen and tuned with hard negatives (UNI Table 8).

    python -m studies.faq stackfaq covidfaq --models all-MiniLM-L6-v2 runs/models/demo
    python -m studies.faq --chat faq.tsv --models all-MiniLM-L6-v2

A set is a folder with ``faq.tsv``, ``queries.tsv`` and ``qrels.tsv`` (see :mod:`corpora.ranking.faq`).
Output: ``results.json``, ``tables.md``, ``report.html``. ``--chat`` reads questions from the keyboard
and prints the best entry of a table, by the first model, or by BM25 without one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from corpora.support.cli import Command
from corpora.support.errors import UserError
from studies.faq.config import FaqConfig

if TYPE_CHECKING:
    from corpora.ranking.faq import FaqSet
    from senteval_runner.vectors.embed import SentenceVectors
    from studies.faq.evaluate import Tuner


def main(config: FaqConfig) -> None:
    """Chat, or evaluate and report."""
    if config.chat is not None:
        answer_questions(config, sys.stdin)
        return
    check(config)
    if config.dry_run:
        print(dry_run(config))
        return
    evaluate(config)


def check(config: FaqConfig) -> None:
    """Refuse values no evaluation could use.

    Raises:
        UserError: one line that names the option.
    """
    if not config.sets:
        raise UserError("no FAQ set given; name a folder, or --chat with a table")
    if config.seeds < 1 or not 0 < config.train_share < 1 or config.tuning.epochs < 0:
        raise UserError("--seeds is at least 1, --train-share between 0 and 1, --tuning.epochs at least 0")
    for name, tuning in (("tuning", config.tuning), ("encoder", config.encoder)):
        if min(tuning.batch_size, tuning.negatives) < 1:
            raise UserError(f"--{name}.batch-size and --{name}.negatives are at least 1")
        if min(tuning.learning_rate, tuning.temperature) <= 0:
            raise UserError(f"--{name}.learning-rate and --{name}.temperature are above 0")
    encoder = config.encoder
    if min(config.tuning.rank, encoder.epochs, encoder.save_every) < 1 or encoder.queries < 0:
        raise UserError(
            "--tuning.rank, --encoder.epochs and --encoder.save-every are at least 1, --encoder.queries 0"
        )
    if encoder.max_length < 4:
        raise UserError(f"--encoder.max-length is at least 4 word pieces, not {encoder.max_length}")
    if config.tune == "encoder":
        from studies.faq.encoder import refuse_untunable

        refuse_untunable(config.models)


def dry_run(config: FaqConfig) -> str:
    """What encoding queries and tables by every model would take."""
    from corpora.ranking.faq import read_faq
    from senteval_runner.vectors.encoders import resolve_encoder
    from senteval_runner.vectors.estimate import encoding_dry_run
    from studies.faq.evaluate import SIDES, side_texts

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


def load_models(models: Iterable[str]) -> dict[str, SentenceVectors]:
    """The encoders by name."""
    from senteval_runner.vectors.embed import as_vectors
    from senteval_runner.vectors.encoders import resolve_encoder

    return {spec: as_vectors(resolve_encoder(spec)) for spec in models}


def evaluate(config: FaqConfig) -> None:
    """Score all methods on all sets."""
    from corpora.ranking.faq import read_faq
    from corpora.support.config import config_to_json
    from corpora.support.files import sha256_file, write_json, write_text
    from studies.faq.evaluate import embed_faq, evaluate_faq
    from studies.faq.report import page, tables

    sets = [read_faq(folder) for folder in dict.fromkeys(config.sets)]
    names = [faq.name for faq in sets]
    for faq in sets:
        if len(faq.queries) < 2:
            raise UserError(f"{faq.name}: needs two queries or more to split")
        if names.count(faq.name) > 1:
            raise UserError(f"two sets have the name {faq.name}; rename a folder")
    encoders = load_models(config.models)
    rows, vectors = [], {}
    for faq in sets:
        vectors[faq.name] = {name: embed_faq(faq, encode) for name, encode in encoders.items()}
        rows += evaluate_faq(
            faq,
            vectors[faq.name],
            _tuner(config, faq, vectors[faq.name]),
            seeds=config.seeds,
            train_share=config.train_share,
            sides=config.sides,
            label=", whole encoder" if config.tune == "encoder" else "",
        )
    results: dict[str, Any] = {
        "config": config_to_json(config),
        "data_sha256": {
            str(p): sha256_file(p) for folder in config.sets for p in sorted(folder.glob("*.tsv*"))
        },
        "sets": {faq.name: {"entries": len(faq.entries), "queries": len(faq.queries)} for faq in sets},
        "rows": rows,
    }
    write_json(config.output / "results.json", results)
    write_text(config.output / "tables.md", tables(rows))
    write_text(config.output / "report.html", page(rows, sets, vectors))
    print(tables(rows))
    print(f"{config.output}/report.html, results.json, tables.md")


def _tuner(config: FaqConfig, faq: FaqSet, vectors: dict[str, Any]) -> Tuner:
    """What the options train."""
    from studies.faq.evaluate import map_tuner, relevance, side_texts

    relevant_QN = relevance(faq, list(faq.queries))
    if config.tune == "map":
        return map_tuner(vectors, relevant_QN, config.tuning)
    from corpora.support.cli import log_to
    from studies.faq.encoder import EncoderTuner

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


def answer_questions(config: FaqConfig, lines: Iterable[str]) -> None:
    """Print the best entry for every line."""
    from corpora.ranking.faq import read_entries
    from studies.faq.rank import bm25, cosines

    assert config.chat is not None
    entries = read_entries(config.chat)
    questions = [entry.question for entry in entries]
    encoders = list(load_models(config.models[:1]).values())
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


cli = Command(FaqConfig, main, "studies.faq", "FAQ retrieval.")


if __name__ == "__main__":
    sys.exit(cli())
