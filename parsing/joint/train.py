"""``python -m parsing.train both``: from treebank files to two model folders over one sentence encoder."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from parsing.constituency import train as constituency
from parsing.constituency.model import ConstituencyModel
from parsing.constituency.stored import stored_parser as stored_constituency
from parsing.constituency.task import score_parser as score_spans
from parsing.dependency import train as dependency
from parsing.dependency.model import DependencyModel
from parsing.dependency.stored import stored_parser as stored_dependency
from parsing.dependency.task import score_parser as score_arcs
from parsing.joint.task import JointPart, JointTask
from parsing.networks.config import TrainJoint
from parsing.networks.model_card import Scores, Sources, Stored, Training, file_hashes
from parsing.networks.model_folder import ModelFolder, load_model_folder
from parsing.networks.training import seed_everything

RULES = (
    "Both parsers were trained together over one sentence encoder, whose weights are\nin both folders; run "
    "together they encode each sentence once."
)


def train_joint_parsers(config: TrainJoint) -> Scores:
    """Train, write the folders ``dep`` and ``const``, return the dev scores of what was stored.

    Raises:
        UserError: bad data, or a configuration that has no room for spans.
    """
    if not config.model.encoder.end_boundary:
        raise UserError("--model.encoder.end-boundary is needed: the last span ends there")
    excluded = config.exclude_documents
    sentences = dependency.read_dependencies(config.train_dep, excluded, tags="xpos")
    trees = constituency.read_treebank(config.train_const, excluded)
    dev_sentences = dependency.read_dependencies(config.dev_dep)
    dev_trees = constituency.read_treebank(config.dev_const)
    seed_everything(config.loop)
    start = [] if config.start_from is None else _read_start(config.start_from)
    task = JointTask(sentences, trees, dev_sentences, dev_trees, config.model, [model for model, _ in start])

    def arcs(folder: ModelFolder) -> Scores:
        return score_arcs(stored_dependency(folder), dev_sentences)

    def spans(folder: ModelFolder) -> Scores:
        return score_spans(stored_constituency(folder), dev_trees)

    arc_card = dataclasses.replace(dependency.card_texts(task.dependency), data_rules=RULES)
    span_card = dataclasses.replace(
        constituency.card_texts(task.constituency), data_rules=RULES, left_out_of="train"
    )
    training = Training(
        task=task,
        stored=[
            Stored(kind="dependency", model=task.dependency, score=arcs, card=arc_card, part="dep"),
            Stored(kind="constituency", model=task.constituency, score=spans, card=span_card, part="const"),
        ],
        sources=Sources(
            model=config_to_json(config.model),
            train=file_hashes([*config.train_dep, *config.train_const]),
            dev=file_hashes([*config.dev_dep, *config.dev_const]),
            exclude_documents=excluded,
            start_from=tuple(sha256 for _, sha256 in start),
        ),
        dev_size=len(dev_sentences),
    )
    return training.run(config, config.loop)


def _read_start(path: Path) -> list[tuple[JointPart, str]]:
    """The models in a folder of one dependency model or of an earlier output, with the hash of each.

    Raises:
        UserError: the folder holds neither.
    """
    both = (path / "const").is_dir()
    arcs = load_model_folder(path / "dep" if both else path, kind="dependency")
    start: list[tuple[JointPart, str]] = [(DependencyModel.from_folder(arcs), arcs.identity["sha256"])]
    if both:
        spans = load_model_folder(path / "const", kind="constituency")
        start.append((ConstituencyModel.from_folder(spans), spans.identity["sha256"]))
    return start
