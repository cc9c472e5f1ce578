r"""Train BURT: files in, an ordinary sentence-transformers folder out.

    python -m studies.burt --output runs/burt/bert --backbone bert-base-uncased --nli train.jsonl \
        --ppdb ppdb-2.0-s-phrasal.gz
    python -m studies.burt --output runs/burt/paper --preset paper --nli ... --nli-dev ... --ppdb ...

The output folder holds the model at its root (``SentenceTransformer(folder)`` loads it),
``heads.safetensors``, ``history.json`` (scores before, during and after training), ``burt.json`` (resolved
options; sizes and SHA-256 of the other three), ``README.md``; while training, ``training/``.
Source: Li & Zhao 2020 (BURT); rate and epochs Li & Zhao 2021 (UNI).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import (
    atomic_path,
    check_file,
    file_record,
    read_json,
    read_record,
    write_json,
    write_record,
    write_text,
)
from parsing.networks.device import pick_device
from senteval_runner.protocol.correlation import accuracy, cosines, spearman
from senteval_runner.report.table import Column, Table
from senteval_runner.towers.transformer import embed_all, load_tower
from studies.burt.config import BurtConfig, Objective
from studies.burt.data import BurtData, corpus_texts, read_data
from studies.burt.objectives import CLASSES, Siamese, one_round, steps_per_epoch
from studies.burt.paper import BACKBONE
from studies.finetune.backbone import TINY, chosen, ready
from studies.finetune.examples import Examples, Fixed, Joined, Source, Stream, WithNegatives
from studies.finetune.loop import Row, Schedule, Task, fit

FILES = ("model.safetensors", "heads.safetensors", "history.json")
"""What a finished run has written and ``burt.json`` vouches for."""
FREE_OPTIONS = ("preset", "ablation")
"""Options that do not decide the result: a preset's values are among the others."""


def train(config: BurtConfig) -> list[Row]:
    """Train to the end, resuming the run in ``config.output``; return the scores by step.

    Raises:
        UserError: data for an objective is missing, the backbone cannot be loaded, or the folder holds a
            run with other options or damaged files.
    """
    config.tiny.heads()
    chosen(config.backbone, BACKBONE)
    done = config.output / "burt.json"
    resolved = _resolved(config)
    log = log_to(config.output).info
    if done.exists():
        record = read_record(done)
        if record["options"] != resolved:
            raise UserError(f"{done}: a run with other options is finished there; use another --output")
        for name, written in record["files"].items():
            check_file(config.output / name, **written)
        shutil.rmtree(config.output / "training", ignore_errors=True)  # of a run killed after its last file
        log(f"{config.output} is finished already")
        return list(read_json(config.output / "history.json"))
    data, net, tasks, schedule = _prepare(config, log)
    history = fit(
        net,
        tasks,
        schedule,
        config.loop,
        evaluate=_evaluation(config, data, net),
        seed=config.seed,
        folder=config.output / "training",
        report=log,
    )
    _save(config, net, history, data.summary)
    files = {name: file_record(config.output / name) for name in FILES}
    write_record(done, {"options": resolved, "files": files})
    shutil.rmtree(config.output / "training")
    return history


def _resolved(config: BurtConfig) -> dict[str, Any]:
    """The options that decide the result."""
    return {key: value for key, value in config_to_json(config).items() if key not in FREE_OPTIONS}


def _prepare(
    config: BurtConfig, log: Callable[[str], None]
) -> tuple[BurtData, Siamese, dict[str, Task], Schedule]:
    """Data, network, batches and training schedule."""
    data = read_data(config)
    for line in data.summary:
        log(line)
    net = _network(config, data, log)
    net.encoder.prepare(data.texts())
    tasks = _tasks(config, data, net)
    cycle = one_round(config.objectives)
    per_epoch = steps_per_epoch(cycle, {name: tasks[name].stream.batches_per_pass for name in set(cycle)})
    steps = max(1, round(config.epochs * per_epoch))
    log(f"{' -> '.join(cycle)}; an epoch is {per_epoch:,} steps of {config.batch_size}; {steps:,} steps")
    schedule = Schedule(
        cycle=cycle,
        steps=steps,
        evaluate_every=config.evaluate_every,
        save_every=config.save_every,
        identity={"options": _resolved(config)},
    )
    return data, net, tasks, schedule


def _network(config: BurtConfig, data: BurtData, log: Callable[[str], None]) -> Siamese:
    """Tower and heads on the chosen device, initial weights a function of the seed."""
    backbone = ready(
        chosen(config.backbone, BACKBONE),
        config.output / "backbone",
        lambda: corpus_texts(config, data),
        config.tiny,
        seed=config.seed,
        report=log,
    )
    device = pick_device(config.device)
    tower = load_tower(
        backbone, pooling=config.pooling, max_length=config.max_length, dropout=config.dropout, device=device
    )
    return Siamese(tower, config.objectives, config.concatenation, config.seed).to(device)


def _tasks(config: BurtConfig, data: BurtData, net: Siamese) -> dict[str, Task]:
    """One stream of batches per objective."""
    sources: dict[Objective, Source] = {}
    if "nli" in config.objectives:
        sources["nli"] = Fixed(data.nli)
    if "identification" in config.objectives:
        parts: list[Source] = []
        if data.pairs:
            parts.append(WithNegatives(data.pairs, config.negatives, config.seed, others=data.pairs_dev))
        if len(data.labelled):
            parts.append(Fixed(data.labelled))
        sources["identification"] = Joined(parts)
    if "classification" in config.objectives:
        sources["classification"] = Fixed(data.classes)

    def task(name: Objective, source: Source) -> Task:
        return Task(
            Stream(source, config.batch_size, config.seed, name), lambda examples: net.loss(name, examples)
        )

    return {name: task(name, source) for name, source in sources.items()}


def _evaluation(config: BurtConfig, data: BurtData, net: Siamese) -> Callable[[], Row]:
    """Accuracy of every trained objective on its held-out pairs; Spearman on the similarity files."""
    held: dict[Objective, Examples] = {}
    if "nli" in config.objectives:
        held["nli"] = _first(data.nli_dev, config.dev_rows)
    if "identification" in config.objectives:
        sources: list[Source] = []
        if data.pairs_dev:
            sources.append(
                WithNegatives(data.pairs_dev, config.negatives, config.seed, "held out", others=data.pairs)
            )
        if len(data.labelled_dev):
            sources.append(Fixed(data.labelled_dev))
        if sources:
            held["identification"] = _first(Joined(sources).draw(0), config.dev_rows)
    if "classification" in config.objectives:
        held["classification"] = _first(data.classes_dev, config.dev_rows)

    def evaluate() -> Row:
        row: Row = {
            name: accuracy(net.predict(name, examples), examples.target)
            for name, examples in held.items()
            if len(examples)
        }
        for name, examples in data.similarity.items():
            assert examples.second is not None
            a, b = np.split(embed_all(net.encoder, examples.first + examples.second), 2)
            row[name] = spearman(cosines(a, b), examples.target)
        return row

    return evaluate


def _first(examples: Examples, rows: int) -> Examples:
    """A fixed random selection of at most ``rows`` examples."""
    order = np.random.default_rng(0).permutation(len(examples))[:rows]
    return examples.take(np.sort(order))


def _save(config: BurtConfig, net: Siamese, history: Sequence[Row], summary: Sequence[str]) -> None:
    """Write the model, the heads, the scores and a model card."""
    net.cpu().encoder.save(config.output)
    with atomic_path(config.output / "heads.safetensors") as temporary:
        heads = {name: tensor.contiguous() for name, tensor in net.heads.state_dict().items()}
        # One key, because safetensors writes several in random order and files of equal runs would differ.
        classes = json.dumps({name: CLASSES[name] for name in config.objectives}, sort_keys=True)
        save_file(heads, temporary, metadata={"classes": classes})
    write_json(config.output / "history.json", list(history))
    write_text(config.output / "README.md", model_card(config, history, summary))


def model_card(config: BurtConfig, history: Sequence[Row], summary: Sequence[str]) -> str:
    """A description with training data, scores and how to use the model."""
    columns: list[Column | str] = ["held-out score", Column("before", digits=4), Column("after", digits=4)]
    table = Table(columns, _scores(history)).markdown()
    unseen = "" if config.backbone == TINY else " What the backbone itself was trained on, its own card says."
    return "\n".join(
        [
            f"# BURT on {Path(str(config.backbone)).name}",
            "",
            "A Siamese sentence encoder trained on NLI and paraphrases (Li & Zhao 2020).",
            f"Objectives: {', '.join(config.objectives)}; pooling: {config.pooling}; concatenation: "
            f"{config.concatenation}; {history[-1]['step']:,} steps of {config.batch_size} pairs; "
            f"seed {config.seed}.",
            f"STS-B was not trained on here.{unseen}",
            "",
            "Training data:",
            "",
            *[f"- {line}" for line in summary],
            "",
            table,
            "```python",
            "from sentence_transformers import SentenceTransformer",
            f'vectors = SentenceTransformer("{config.output.name}").encode(["A sentence.", "a phrase"])',
            "```",
            "",
            f"All options: `burt.json` (torch {torch.__version__}).",
            "",
        ]
    )


def final_scores(history: Sequence[Row]) -> dict[str, float]:
    """The scores after the last step; the losses of training are none."""
    return {name: after for name, _, after in _scores(history)}


def _scores(history: Sequence[Row]) -> list[tuple[str, float, float]]:
    """Each score before the first step and after the last, without the training losses."""
    names = [name for name in history[-1] if name != "step" and not name.startswith("loss/")]
    return [(name, history[0][name], history[-1][name]) for name in names]


def describe(config: BurtConfig, history: Sequence[Row]) -> str:
    """The one-screen summary of a finished run."""
    lines = [f"{'score':<28}{'before':>9}{'after':>9}"]
    lines += [f"{name:<28}{before:>9.4f}{after:>9.4f}" for name, before, after in _scores(history)]
    return "\n".join(
        [*lines, f"model: {config.output}  (SentenceTransformer({str(config.output)!r}) loads it)"]
    )
