"""What BURT (Li & Zhao 2020) states: sizes of its data, and its settings as a preset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpora.support.presets import Need, refuse_missing
from studies.burt.config import BurtConfig

BACKBONE = "bert-base-uncased"
"""BERT-base; that the paper's is uncased is our reading."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"preset": "paper", "backbone": BACKBONE, "held_out": 0.03}
}
"""``paper``: what differs from the defaults, which are the paper's otherwise.

The paper does not say how large its test set of PPDB is; 32,202 phrase pairs of it are a test of their own. A
held-out 3 % of 1.06M pairs are as many.
"""


def refuse_missing_inputs(config: BurtConfig) -> None:
    """Refuse to begin without the paper's data.

    Raises:
        UserError: lists all that is not here.
    """
    from studies.finetune.backbone import needed

    snli, multinli = "nlp.stanford.edu/projects/snli", "cims.nyu.edu/~sbowman/multinli"
    refuse_missing(
        "paper",
        [
            needed(config.backbone, BACKBONE),
            Need(
                option="--nli FILE FILE",
                what="snli_1.0_train.jsonl and multinli_1.0_train.jsonl (942k pairs)",
                where=f"{snli}, {multinli}",
                here="nli" not in config.objectives or _all_files(config.nli, 2),
            ),
            Need(
                option="--nli-dev FILE FILE FILE",
                what="snli_1.0_dev.jsonl and MultiNLI's dev_matched and dev_mismatched (29k pairs)",
                where=f"{snli}, {multinli}",
                here="nli" not in config.objectives or _all_files(config.nli_dev, 3),
            ),
            Need(
                option="--ppdb FILE",
                what="ppdb-2.0-s-phrasal (1.53M pairs)",
                where="paraphrase.org",
                here=set(config.objectives) == {"nli"} or _all_files(config.ppdb, 1),
            ),
        ],
    )


def _all_files(paths: tuple[Path, ...], count: int) -> bool:
    return len(paths) >= count and all(path.is_file() for path in paths)
