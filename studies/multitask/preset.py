"""``--preset paper``: what it needs, known before anything is read."""

from __future__ import annotations

from pathlib import Path

from corpora.senteval.files import read_task
from corpora.support.errors import UserError
from corpora.support.presets import Need, refuse_missing
from studies.finetune.backbone import needed
from studies.multitask.config import MultitaskConfig
from studies.multitask.paper import BACKBONE, SIZES
from studies.multitask.tasks import data_folder


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
