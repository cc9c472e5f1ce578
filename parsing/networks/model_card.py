"""From a prepared run to a model folder with its card: what training either parser ends with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.files import sha256_file, write_json, write_text
from parsing.constituency.model import ConstituencyModel
from parsing.dependency.model import DependencyModel
from parsing.networks.config import TrainConstituency, TrainDependency
from parsing.networks.model_folder import CARD, ModelFolder, load_model_folder, save_model_folder
from parsing.networks.training import LOG, Trainer

Scores = dict[str, float]
CURVE_ROWS = 12
"""About how many epochs a card's learning curve shows."""


@dataclass(frozen=True, kw_only=True)
class CardTexts:
    """What a model card says of one kind of parser."""

    about: Callable[[Any, int], str]
    """What a model is, from the model and its number of parameters."""
    left_out_of: str
    """The data that ``exclude_documents`` applies to."""
    data_rules: str = ""
    """What is learned from which data."""
    score_table: Callable[[Scores], list[str]]
    """The scores as lines of a table."""
    rules: str
    """How is scored."""
    curve: str
    """What the learning curve is of."""
    columns: Mapping[str, str]
    """The curve's scores and their names."""


def file_hashes(paths: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of each file."""
    return {str(path): sha256_file(path) for path in paths}


def train_and_store(
    config: TrainDependency | TrainConstituency,
    trainer: Trainer,
    model: DependencyModel | ConstituencyModel,
    *,
    kind: str,
    dev_size: int,
    score: Callable[[ModelFolder], Scores],
    card: CardTexts,
) -> Scores:
    """Train, write the model folder, return the dev scores of what was stored.

    Args:
        config: the options.
        trainer: the run, prepared; its folder is ``training/`` in the model folder.
        model: what is stored of what the trainer trains.
        kind: of the model folder.
        dev_size: number of dev sentences.
        score: scores of a model folder on dev.
        card: what its card says.
    """
    identity = {"name": config.name or config.output.resolve().name, "version": config.version}
    log = log_to(trainer.folder)
    write_json(
        trainer.folder / "config.json",
        {
            **trainer.run_config,
            "training": config_to_json(config.training),
            **identity,
            "half": config.half,
        },
    )
    parameters = sum(parameter.numel() for parameter in model.parameters())
    sizes = trainer.task.sizes()
    log.info(
        "%d training sentences, %d words; %d dev sentences; %d parameters",
        len(sizes),
        sum(sizes),
        dev_size,
        parameters,
    )
    summary = trainer.run()
    trainer.task.module.load_state_dict(trainer.best_tensors())
    save_model_folder(
        config.output,
        kind=kind,
        **identity,
        config=model.config_json(),
        vocabulary=model.vocabulary_json(),
        tensors=model.state_dict(),
        half=config.half,
        card="",
    )
    # The stored weights are scored, not those in memory: float16 rounds them.
    scores = score(load_model_folder(config.output, kind=kind))
    about = [f"# {identity['name']}, version {identity['version']}", "", card.about(model, parameters)]
    curve = (trainer.folder / LOG).read_text(encoding="utf-8").splitlines()
    lines = [*about, *_card_lines(card, trainer.run_config, scores, summary, list(map(json.loads, curve)))]
    write_text(config.output / CARD, "\n".join(lines))
    log.info(
        "%s: %s", config.output, ", ".join(f"{name} {scores[key]:.2f}" for key, name in card.columns.items())
    )
    return scores


def _card_lines(
    card: CardTexts,
    run: dict[str, Any],
    scores: Scores,
    summary: dict[str, Any],
    curve: Sequence[dict[str, float]],
) -> Iterator[str]:
    """A card after its first paragraph: data, scores, learning curve."""
    yield from ("", "## Data", "")
    for role in ("train", "extra", "dev"):
        for path, digest in run.get(role, {}).items():
            yield f"- {role}: `{'/'.join(Path(path).parts[-2:])}` (sha256 {digest[:16]})"
    if run["exclude_documents"]:
        yield f"- left out of {card.left_out_of}: documents `{'*`, `'.join(run['exclude_documents'])}*`"
    if run.get("start_from"):
        yield f"- started from the weights of the model with sha256 {run['start_from'][:16]}"
    if card.data_rules:
        yield from ("", card.data_rules)
    yield from ("", "## Scores on dev, in per cent", "", *card.score_table(scores), "")
    best, epochs = summary["best_epoch"] + 1, summary["epochs"]
    yield f"{card.rules} The best epoch was {best} of {epochs}, chosen on the same dev sentences."
    yield from ("", f"## Learning curve ({card.curve})", "")
    yield f"| epoch | minutes | loss | {' | '.join(card.columns.values())} |"
    yield "|---|---|---|" + "---|" * len(card.columns)
    step = max(1, len(curve) // CURVE_ROWS)
    for i, line in enumerate(curve):
        if i % step == 0 or i == len(curve) - 1:
            values = " | ".join(f"{line[key]:.2f}" for key in card.columns)
            yield f"| {line['epoch'] + 1:.0f} | {line['minutes']:.1f} | {line['loss']:.3f} | {values} |"
    yield ""
