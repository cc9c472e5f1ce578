"""Train a parser on prepared data and write its model folder with a card."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from torch import Tensor

from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.files import parse_json, sha256_file, write_json, write_text
from parsing.networks.config import LoopConfig, TrainOptions
from parsing.networks.device import pick_device
from parsing.networks.model_folder import CARD, ModelFolder, load_model_folder, save_model_folder
from parsing.networks.training import LOG, Summary, Task, Trainer

Scores = dict[str, float]
BILSTM, TRANSFORMER = "a word and character BiLSTM", "a pretrained transformer"
"""What a card calls the encoder."""
CURVE_ROWS = 12
"""Approximate number of epochs in a card's learning curve."""


class Model(Protocol):
    """A model that can be stored in a folder."""

    def config_json(self) -> dict[str, object]:
        """The model's configuration, JSON values."""
        ...

    def vocabulary_json(self) -> dict[str, object]:
        """Words, characters and labels, JSON values."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Weights by parameter name."""
        ...


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What a model is trained from; with the loop's configuration it determines the run."""

    model: Mapping[str, object]
    """The model's configuration, JSON values."""
    train: dict[str, str]
    """SHA-256 by file, as in the two below."""
    dev: dict[str, str]
    extra: dict[str, str] = field(default_factory=dict)
    exclude_documents: tuple[str, ...]
    """Prefixes of ids of documents that are left out."""
    start_from: tuple[str, ...] = ()
    """SHA-256 of the models whose weights training began with."""


@dataclass(frozen=True, kw_only=True)
class CardTexts:
    """What a model card says about one kind of parser."""

    about: str
    """Describes the model."""
    left_out_of: str
    """The data that ``exclude_documents`` applies to."""
    data_rules: str = ""
    """What is learned from which data."""
    score_table: Callable[[Scores], list[str]]
    """The scores as lines of a table."""
    rules: str
    """How the scores are computed."""
    curve: str
    """What the learning curve shows."""
    columns: Mapping[str, str]
    """The curve's scores and their names."""


def file_hashes(paths: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of each file."""
    return {str(path): sha256_file(path) for path in paths}


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A parser that a run stores."""

    kind: str
    """Of the model folder."""
    model: Model
    """The part of the task's module that is stored."""
    score: Callable[[ModelFolder], Scores]
    """Scores of a model folder on dev."""
    card: CardTexts
    part: str = ""
    """Folder below the run's output, and the end of the model's name, if there are several."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training run from prepared data to model folders."""

    task: Task
    stored: Sequence[Stored]
    """What is stored of the task's module."""
    sources: Sources
    dev_size: int
    """Number of dev sentences."""

    def run(self, options: TrainOptions, loop: LoopConfig) -> Scores:
        """Train, write the model folders, return the dev scores of what was stored."""
        name, version = options.name or options.output.resolve().name, options.version
        folder = options.output / "training"
        sources = config_to_json(self.sources)
        trainer = Trainer(self.task, loop, folder, sources, pick_device(options.device))
        log = log_to(folder)
        record = {"loop": config_to_json(loop), "name": name, "version": version, "half": options.half}
        write_json(folder / "config.json", sources | record)
        sizes = self.task.sizes()
        log.info(
            "%d training sentences, %d words; %d dev sentences; %d parameters",
            len(sizes),
            sum(sizes),
            self.dev_size,
            sum(parameter.numel() for parameter in trainer.parameters.values()),
        )
        summary = trainer.run()
        trainer.load_best()
        log_lines = (folder / LOG).read_text(encoding="utf-8").splitlines()
        curve = [parse_json(line, where=f"{folder / LOG}:{i}") for i, line in enumerate(log_lines, start=1)]
        all_scores: Scores = {}
        for stored in self.stored:
            path, full_name = options.output / stored.part, "-".join(filter(None, (name, stored.part)))
            save_model_folder(
                path,
                kind=stored.kind,
                name=full_name,
                version=version,
                config=stored.model.config_json(),
                vocabulary=stored.model.vocabulary_json(),
                tensors=stored.model.state_dict(),
                half=options.half,
                card="",
            )
            # The stored weights are scored, not those in memory: float16 rounds them.
            scores = stored.score(load_model_folder(path, kind=stored.kind))
            lines = [f"# {full_name}, version {version}", "", stored.card.about]
            lines += self._card_lines(stored.card, scores, summary, curve)
            write_text(path / CARD, "\n".join(lines))
            told = ", ".join(f"{title} {scores[key]:.2f}" for key, title in stored.card.columns.items())
            log.info("%s: %s", path, told)
            all_scores |= scores
        return all_scores

    def _card_lines(
        self, card: CardTexts, scores: Scores, summary: Summary, curve: Sequence[Mapping[str, float]]
    ) -> Iterator[str]:
        """A card after its first paragraph: data, scores, learning curve."""
        sources = self.sources
        yield from ("", "## Data", "")
        for role, files in (("train", sources.train), ("extra", sources.extra), ("dev", sources.dev)):
            for path, digest in files.items():
                yield f"- {role}: `{'/'.join(Path(path).parts[-2:])}` (sha256 {digest[:16]})"
        if sources.exclude_documents:
            yield f"- left out of {card.left_out_of}: documents `{'*`, `'.join(sources.exclude_documents)}*`"
        if sources.start_from:
            digests = ", ".join(sha256[:16] for sha256 in sources.start_from)
            yield f"- started from the weights of models with sha256 {digests}"
        if card.data_rules:
            yield from ("", card.data_rules)
        yield from ("", "## Scores on dev, in per cent", "", *card.score_table(scores), "")
        best, epochs = summary.best_epoch + 1, summary.epochs
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
