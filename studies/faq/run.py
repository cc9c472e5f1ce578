"""The work behind ``studies.faq``: read the sets, encode, score every method, write the report."""

from __future__ import annotations

from dataclasses import replace

from corpora.ranking.faq import FaqSet, read_faq
from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_json, write_text
from corpora.support.presets import Need, refuse_missing
from senteval_runner.vectors.embed import as_vectors
from senteval_runner.vectors.encoders import open_model
from studies.faq.config import FaqConfig
from studies.faq.encoder import EncoderTuner, refuse_untunable
from studies.faq.evaluate import (
    Row,
    Tuner,
    Vectors,
    embed_faq,
    evaluate_faq,
    map_tuner,
    relevance,
    side_texts,
    splits,
)
from studies.faq.report import figures, tables
from studies.finetune.backbone import is_here

FILES = ("faq.tsv", "queries-train.tsv", "queries-test.tsv")
PAPER_SET = "UNI's insurance FAQ of 300 pairs, 1,200 training and 200 test queries"


def run(config: FaqConfig) -> None:
    """Score all methods on all sets; write and print the tables.

    Raises:
        UserError: bad options or sets.
    """
    _check(config)
    sets = [read_faq(folder) for folder in dict.fromkeys(config.sets)]
    names = [faq.name for faq in sets]
    for faq in sets:
        splits(faq, config)
        if names.count(faq.name) > 1:
            raise UserError(f"two sets have the name {faq.name}; rename a folder")
    encoders = {spec: as_vectors(open_model(spec)) for spec in _encoders(config)}
    rows: list[Row] = []
    vectors: dict[str, Vectors] = {}
    for faq in sets:
        vectors[faq.name] = {name: embed_faq(faq, encode) for name, encode in encoders.items()}
        tuner = _tuner(config, faq, vectors[faq.name])
        rows += evaluate_faq(faq, config.models, vectors[faq.name], tuner, config)
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


def _encoders(config: FaqConfig) -> list[str]:
    """The models, and the retriever."""
    more = [config.retriever] if config.retriever and "retrieved" in config.sampling else []
    return list(dict.fromkeys([*config.models, *more]))


def _check(config: FaqConfig) -> None:
    """Refuse what no evaluation could use, before any work.

    Raises:
        UserError: one line that names the option, or all that a preset lacks.
    """
    if config.preset == "paper":
        refuse_missing("paper", _needs(config))
    if not config.sets:
        raise UserError("no FAQ set given; name a folder")
    if config.tune == "encoder":
        refuse_untunable(config.models)


def _needs(config: FaqConfig) -> list[Need]:
    """What UNI's experiment is made of."""
    where = "never published; a set of your own in the same files takes its place"
    missing = [(folder, [n for n in FILES if not (folder / n).exists()]) for folder in config.sets]
    sets = [(f"{folder} with {', '.join(names or FILES)}", not names) for folder, names in missing]
    return [
        *(
            Need(option=option, what=PAPER_SET, where=where, here=here)
            for option, here in sets or [(f"FOLDER with {', '.join(FILES)}, qrels.tsv", False)]
        ),
        *(
            Need(
                option=f"--models {name}" if name in config.models else f"--retriever {name}",
                what="encoder",
                where=f"https://huggingface.co/{name}; download it, or give a folder",
                here=is_here(name),
            )
            for name in _encoders(config)
        ),
    ]


def _tuner(config: FaqConfig, faq: FaqSet, vectors: Vectors) -> Tuner:
    """The tuner that the options choose."""
    relevant_QN = relevance(faq, list(faq.queries))
    if config.tune == "map":
        return map_tuner(vectors, relevant_QN, config.tuning, config.retriever)
    return EncoderTuner(
        faq.name,
        list(faq.queries.values()),
        {side: side_texts(faq, side) for side in config.sides},
        vectors,
        relevant_QN,
        config.encoder,
        config.output / "tuned",
        retriever=config.retriever,
        device=config.device,
        report=log_to(config.output).info,
    )
