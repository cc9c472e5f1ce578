"""What EMP (Ma et al. 2019) ranks: its data sets, models and settings as a preset."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpora.ranking.sets import parse_spec
from corpora.support.errors import UserError
from corpora.support.presets import Need, refuse_missing
from studies.passages.config import CrossConfig, FrozenConfig, PassagesConfig

BERT, BERT_SNLI = "bert-base-uncased", "runs/burt/bert-snli"
"""Pre-trained BERT (that the paper's is uncased is our reading), and BERT fine-tuned on SNLI."""
SETS: Mapping[str, str] = {
    "wikipassageqa": "ciir.cs.umass.edu/downloads/wikipassageqa",
    "insuranceqa": "github.com/shuzi/insuranceQA, V1",
    "quasar-t": "github.com/bdhingra/quasar",
    "searchqa": "github.com/nyu-dl/dl4ir-searchQA",
}
"""By format: where it is published."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "preset": "paper",
        "sets": tuple(f"data/{name}" for name in SETS),
        "baselines": ("bm25",),
        "keep": "all",
        "features": ("cosine", "bilinear", "uv", "uv-diff-prod"),
        "frozen": FrozenConfig(backbones=(BERT, BERT_SNLI)),
        "cross": CrossConfig(backbones=(BERT,)),
    }
}
"""``paper``: what differs from the defaults, which are the paper's otherwise.

Rates, steps, widths and numbers of negatives are not stated; ours are the defaults. Questions without a
relevant candidate count: the best published R@10 of Quasar-T is 74.6, near the fraction that has one.
"""


def refuse_missing_inputs(config: PassagesConfig) -> None:
    """Refuse to begin without the paper's data sets and models.

    Raises:
        UserError: lists all that is not here.
    """
    from studies.finetune.backbone import is_here

    given = dict(parse_spec(spec) for spec in config.sets if _is_set(spec))
    needs = [
        Need(
            option=f"{kind}=FOLDER",
            what=f"data set {kind}",
            where=where,
            here=kind in given and given[kind].is_dir(),
        )
        for kind, where in SETS.items()
    ]
    nli = "python -m studies.burt --objectives nli --nli"
    snli = f"{nli} snli_1.0_train.jsonl, nlp.stanford.edu/projects/snli"
    frozen = [*config.frozen.backbones, "FOLDER", "FOLDER"][:2]
    for option, backbone, what, where in (
        ("--frozen.backbones", frozen[0], "pre-trained BERT", f"huggingface.co/{BERT}"),
        ("--frozen.backbones", frozen[1], "BERT fine-tuned on SNLI", snli),
        (
            "--cross.backbones",
            next(iter(config.cross.backbones), "FOLDER"),
            "pre-trained BERT to fine-tune",
            f"huggingface.co/{BERT}",
        ),
    ):
        here = Path(backbone).is_dir() or (not backbone.startswith("runs/") and is_here(backbone))
        needs.append(Need(option=f"{option} {backbone}", what=what, where=where, here=here))
    refuse_missing("paper", needs)


def _is_set(spec: str) -> bool:
    try:
        parse_spec(spec)
    except UserError:
        return False
    return True
