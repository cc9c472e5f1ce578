"""The four blocks of BURT's Table 4: one option is changed at a time, the rest is as configured.

    python -m studies.burt --ablation negatives --output runs/burt/ablation --backbone ... --nli ...
    python -m studies.similarity runs/burt/ablation/* --published --words ... --data ... --phrases ...

Every block has the full model among its rows; the blocks below one output folder share it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from corpora.support.cli import log_to
from corpora.support.errors import UserError
from senteval_runner.report.table import Cell, Table
from studies.burt.config import Ablation, BurtConfig
from studies.burt.data import corpus_texts, read_data
from studies.burt.paper import BACKBONE
from studies.burt.train import final_scores, train
from studies.finetune.backbone import chosen, ready

Value = object
"""Of one option of :class:`studies.burt.config.BurtConfig`."""


@dataclass(frozen=True)
class Variant:
    """A row of Table 4."""

    name: str
    """As in the paper."""
    folder: str
    changes: Mapping[str, Value] = field(default_factory=dict)
    """Options by field; none for the full model."""


FULL = "full"
GRIDS: Mapping[Ablation, tuple[Variant, ...]] = {
    "objectives": (
        Variant("NLI", "nli", {"objectives": ("nli",)}),
        Variant("NLI+PI", "nli-pi", {"objectives": ("nli", "identification")}),
        Variant("NLI+PTC", "nli-ptc", {"objectives": ("nli", "classification")}),
        Variant("NLI+PI+PTC", FULL),
    ),
    "pooling": (
        Variant("CLS", "cls", {"pooling": "cls"}),
        Variant("MAX", "max", {"pooling": "max"}),
        Variant("MEAN", FULL),
    ),
    "concatenation": (
        Variant("[u; v]", "uv", {"concatenation": "uv"}),
        Variant("[|u−v|]", "diff", {"concatenation": "diff"}),
        Variant("[u∗v]", "prod", {"concatenation": "prod"}),
        Variant("[u; v; |u−v|]", FULL),
        Variant("[u; v; u∗v]", "uv-prod", {"concatenation": "uv-prod"}),
        Variant("[|u−v|; u∗v]", "diff-prod", {"concatenation": "diff-prod"}),
        Variant("[u; v; |u−v|; u∗v]", "uv-diff-prod", {"concatenation": "uv-diff-prod"}),
    ),
    "negatives": (
        Variant("k = 1", "k1", {"negatives": 1}),
        Variant("k = 3", FULL),
        Variant("k = 5", "k5", {"negatives": 5}),
        Variant("k = 7", "k7", {"negatives": 7}),
    ),
}
FULL_MODEL = {
    "objectives": ("nli", "identification", "classification"),
    "pooling": "mean",
    "concatenation": "uv-diff",
    "negatives": 3,
}
"""What the unchanged options have to be for the grids to be the paper's."""


def variants(config: BurtConfig) -> dict[str, BurtConfig]:
    """The rows of ``config.ablation`` by their names in Table 4.

    Raises:
        UserError: an option that the table keeps fixed has another value.
    """
    assert config.ablation is not None
    for option, value in FULL_MODEL.items():
        if getattr(config, option) != value:
            raise UserError(f"--ablation {config.ablation} sets --{option} itself; leave it out")
    unchanged = dataclasses.replace(config, ablation=None)
    return {
        row.name: dataclasses.replace(unchanged, output=config.output / row.folder, **row.changes)  # type: ignore[arg-type]
        for row in GRIDS[config.ablation]
    }


def ablate(config: BurtConfig) -> str:
    """Train every row, one after the other; return the table of their held-out scores.

    Raises:
        UserError: as :func:`studies.burt.train.train`, or see :func:`variants`.
    """
    rows = variants(config)
    start = chosen(config.backbone, BACKBONE)

    def texts() -> list[str]:
        return corpus_texts(config, read_data(config))

    # A tiny backbone is built once, so that all rows start from the same weights.
    folder = config.output / "backbone"
    backbone = ready(start, folder, texts, config.tiny, seed=config.seed, report=log_to(config.output).info)
    found = {
        name: final_scores(train(dataclasses.replace(row, backbone=backbone))) for name, row in rows.items()
    }
    columns = sorted({score for scores in found.values() for score in scores})  # a finished run's are sorted
    cells: list[list[Cell]] = [
        [name, *(100 * scores[column] if column in scores else None for column in columns)]
        for name, scores in found.items()
    ]
    table = Table([str(config.ablation), *columns], cells, title="Held-out scores x 100")
    folders = " ".join(str(row.output) for row in rows.values())
    return "\n".join(
        [
            table.markdown(),
            "The columns of Table 4, with the published rows:",
            f"    python -m studies.similarity {folders} --published --words FOLDER --data FOLDER "
            "--phrases FILE --semeval2013 FOLDER --fine-tune",
        ]
    )
