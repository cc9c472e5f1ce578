"""What BURT (Li & Zhao 2020) states: sizes of its data, and its settings as a preset."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpora.support.presets import Need, refuse_missing
from studies.burt.config import BurtConfig, Objective

BACKBONE = "bert-base-uncased"
"""BERT-base; that the paper's is uncased is our reading."""
NLI_PAIRS = 942_069
"""SNLI's 549,367 and MultiNLI's 392,702 training pairs: the paper's 942k."""
NLI_DEV_PAIRS = 29_489
"""9,842 + 9,815 + 9,832: the paper's 29k."""
PPDB_LABELS = 3

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"preset": "paper", "backbone": BACKBONE, "held_out": 0.03}
}
"""``paper``: what differs from the defaults, which are the paper's otherwise.

The paper does not say how large its test set of PPDB is; 32,202 phrase pairs of it are a test of their own. A
held-out 3 % of 1.06M pairs are as many.
"""


def plan(config: BurtConfig, rows: Sequence[str] = ()) -> str:
    """What is trained at the sizes that the paper states, known before anything is read.

    Args:
        config: as it was given.
        rows: names of the models of an ablation; sizes are those of its full model.
    """
    pairs = PPDB_LABELS * config.per_class
    loop = config.loop
    sizes: dict[Objective, str] = {
        "nli": f"{NLI_PAIRS:,} pairs to train on, {NLI_DEV_PAIRS:,} scored (paper: 942k, 29k)",
        "classification": f"{pairs:,} pairs, {config.per_class:,} of each label (paper: 1.06M, 354k)",
        "identification": f"{pairs:,} positive pairs and {config.negatives} sampled negatives each, "
        f"{pairs * (1 + config.negatives):,} in all",
    }
    lines = [f"preset paper: {config.backbone}, {', '.join(config.objectives)}"]
    lines += [f"  {row}" for row in rows]
    lines += [f"{name:<15} {size}" for name, size in sizes.items() if name in config.objectives]
    if "nli" in config.objectives:
        share = 2 if len(config.objectives) > 1 else 1
        per_epoch = share * -(-NLI_PAIRS // config.batch_size)
        lines.append(f"steps           {per_epoch:,} an epoch, {round(config.epochs * per_epoch):,} in all")
    lines.append(
        f"batch {config.batch_size}; Adam {loop.betas}, epsilon {loop.epsilon:g}; "
        f"rate {loop.learning_rate:g} after {loop.warmup:.0%} warm-up, then linearly to 0; "
        f"dropout {config.dropout:g}"
    )
    return "\n".join(lines)


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
