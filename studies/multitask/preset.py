"""``--preset paper``: what it trains and what it needs, known before anything is read."""

from __future__ import annotations

from pathlib import Path

from corpora.senteval.files import read_task
from corpora.support.errors import UserError
from corpora.support.presets import Need, refuse_missing
from studies.finetune.backbone import needed
from studies.multitask.config import MultitaskConfig
from studies.multitask.paper import BACKBONE, SIZES
from studies.multitask.run import sequences_of
from studies.multitask.stages import Stage, name_of
from studies.multitask.tasks import data_folder


def plan(config: MultitaskConfig) -> str:
    """Configurations, stages and steps at the sizes that the paper states."""
    sequences = sequences_of(config)
    stages = {sequence[: place + 1] for sequence in sequences for place in range(len(sequence))}
    lines = [
        f"preset paper: {len(sequences)} configurations of {config.backbone}, {len(stages)} stages; "
        f"{config.epochs} epochs of batch {config.batch_size} at {config.loop.learning_rate:g} each",
        *(f"  {name_of(sequence)}" for sequence in sequences),
        *(
            f"{task:<6} {train:>7,} train, {dev:>6,} dev, {test:>6,} test in the paper"
            for task, (train, dev, test) in SIZES.items()
        ),
    ]
    for stage in sorted({sequence[-1] for sequence in stages}, key=str):
        times = sum(sequence[-1] == stage for sequence in stages)
        lines.append(f"{stage!s:<10} {times} x {config.epochs * _steps(config, stage):>7,} steps")
    return "\n".join(lines)


def _steps(config: MultitaskConfig, stage: Stage) -> int:
    """Steps of an epoch at the paper's size."""
    train = SIZES[stage.task][0]
    return -(-(round(0.1 * train) if stage.sampled else train) // config.batch_size)


def refuse_missing_inputs(config: MultitaskConfig) -> None:
    """Refuse to begin without the paper's data.

    Raises:
        UserError: lists all that is not here.
    """
    snli = "nlp.stanford.edu/projects/snli"
    refuse_missing(
        "paper",
        [
            needed(config.backbone, BACKBONE),
            Need(
                option="--data FOLDER",
                what="SST-5 (8,544 / 1,101 / 2,210 sentences) as senteval/downstream/SST/fine",
                where="nlp.stanford.edu/sentiment",
                here=_readable(config, "SST5"),
            ),
            Need(
                option="--data FOLDER",
                what="STS-B (8,628 pairs) as senteval/downstream/STS/STSBenchmark",
                where="ixa2.si.ehu.eus/stswiki",
                here=_readable(config, "STSBenchmark"),
            ),
            Need(
                option="--quora.train FILE",
                what="quora_duplicate_questions.tsv (404,290 pairs)",
                where="quoradata.quora.com/First-Quora-Dataset-Release-Question-Pairs",
                here=_is_file(config.quora.train),
            ),
            *(
                Need(
                    option=f"--nli.{part} FILE",
                    what=f"snli_1.0_{part}.jsonl ({size:,} pairs)",
                    where=snli,
                    here=_is_file(path),
                )
                for part, size, path in zip(
                    ("train", "dev", "test"),
                    SIZES["nli"],
                    (config.nli.train, config.nli.dev, config.nli.test),
                    strict=True,
                )
            ),
        ],
    )


def _is_file(path: Path | None) -> bool:
    return path is not None and path.is_file()


def _readable(config: MultitaskConfig, task: str) -> bool:
    """Whether the data folder holds a task."""
    try:
        read_task(task, data_folder(config))
    except UserError:
        return False
    return True
