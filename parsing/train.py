r"""Trains a parser, or both over one sentence encoder, from treebanks.

    python -m parsing.train --train-dep ewt/train.conllu gum/train.conllu --dev-dep gum/dev.conllu \
        --train-const gum/train.ptb --dev-const gum/dev.ptb --output runs/parsers/mine

Input: CoNLL-U files (``--train-dep``), bracket files (``--train-const``), or both. Output: the model folders
``dep`` and ``const``, which ``--dep-model`` and ``--const-model`` take. Two parsers that were trained
together share a sentence encoder, so that they are faster together. Each folder has a model card; the
learning curve and the checkpoints are in ``training/``. The same command resumes a killed run. Training on a
GPU is experimental: it was never run.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from parsing.networks.config import ModelConfig, ParserLoopConfig, ParserTrainConfig
from runtime.cli import Command, config_to_json, log_to
from runtime.errors import UserError
from runtime.files import sha256_file, write_text
from runtime.folders import readme_text

MODEL_DESCRIPTIONS = {
    "dep": "Biaffine dependency parser (Dozat & Manning 2017). Words are given, tags are not used; relation "
    "subtypes count; `_punct`: with punctuation.",
    "const": "Span parser (Kitaev & Klein 2018) with part-of-speech tags. Brackets without function tags, "
    "punctuation and wrapper (`parsing/training/scores.py`).",
}
"""A description of each kind of model and of its scores."""


def main(config: ParserTrainConfig) -> int:
    """Train, write the model folders, log the dev scores of the stored weights; return the exit code."""
    from parsing.text_parser import load_parser
    from parsing.training.parsers import ParserTrainer
    from parsing.training.scores import read_gold, score_parser
    from runtime.device import pick_device
    from runtime.training_loop import TrainingLoop

    has_dep, has_const = bool(config.train_dep), bool(config.train_const)
    is_complete = has_dep == bool(config.dev_dep) and has_const == bool(config.dev_const)
    if not is_complete or not (has_dep or has_const):
        raise UserError("give --train-dep and --dev-dep, or --train-const and --dev-const, or all four")
    device = pick_device(config.device)
    sentences = read_gold("dep", config.train_dep, tags="xpos") if has_dep else []
    trees = read_gold("const", config.train_const) if has_const else []
    dev_files = {"dep": config.dev_dep, "const": config.dev_const}
    dev = {kind: read_gold(kind, paths) for kind, paths in dev_files.items() if paths}
    trainer = ParserTrainer(sentences, trees, dev, config.model, config.loop, device)
    files = {"train": config.train_dep + config.train_const, "dev": config.dev_dep + config.dev_const}
    data = {role: {str(path): sha256_file(path) for path in paths} for role, paths in files.items()}
    identity = {"model": config_to_json(config.model), "device": device.type, **config_to_json(config.loop)}
    defaults = {"model": config_to_json(ModelConfig()), **config_to_json(ParserLoopConfig())}
    state, folder = trainer.state, config.output / "training"
    with log_to(folder) as log:
        loop = TrainingLoop(
            state, trainer.steps, trainer.schedule, folder, identity=identity | data, defaults=defaults
        )
        sizes = (
            len(trainer.words),
            sum(map(len, trainer.words)),
            sum(each.numel() for each in state.module.parameters()),
        )
        log.info("%d sentences, %d words; %d parameters", *sizes)
        if code := loop.run(trainer.step, trainer.validate):
            return code
        loop.load_best()
        for kind, model in trainer.models.items():
            path, name = config.output / kind, f"{config.output.resolve().name}-{kind}"
            model.save(path, name=name, version="1")
            # The stored weights are scored, because they are rounded to float16.
            scores = score_parser(kind, load_parser(kind, str(path)), dev[kind])
            write_text(path / "README.md", card(name, kind, data, scores))
            log.info("%s: %s", path, ", ".join(f"{key} {value:.2f}" for key, value in scores.items()))
    return 0


def card(name: str, kind: str, data: Mapping[str, Mapping[str, str]], scores: Mapping[str, float]) -> str:
    """Return a model card: a description of the model, its data, its scores.

    Args:
        name: the name of the model.
        kind: ``dep`` or ``const``.
        data: the SHA-256 of each file, by its role (train, dev).
        scores: the scores on dev, in per cent, by name.
    """
    files = [
        f"- {role}: `{'/'.join(Path(path).parts[-2:])}` (sha256 {digest[:16]})"
        for role, digests in data.items()
        for path, digest in digests.items()
    ]
    rows = [[*scores], ["---"] * len(scores), [f"{value:.2f}" for value in scores.values()]]
    return readme_text(
        name,
        MODEL_DESCRIPTIONS[kind],
        "## Data",
        "\n".join(files),
        "## Scores on dev, in per cent",
        "\n".join(f"| {' | '.join(row)} |" for row in rows),
        "The weights of the best epoch on the same sentences.",
    )


DESCRIPTION = "Train a dependency parser, a constituency parser, or both over one sentence encoder."
cli = Command(ParserTrainConfig, main, "parsing.train", DESCRIPTION, folder_of=lambda config: config.output)


if __name__ == "__main__":
    sys.exit(cli())
