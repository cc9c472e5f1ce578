"""The rows of BURT's Table 4, its preset, and what a run of a block leaves."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from corpora.support.errors import UserError
from studies.burt.ablation import GRIDS, ablate, variants
from studies.burt.config import Ablation, BurtConfig
from studies.burt.paper import PRESETS
from studies.finetune.config import LoopConfig, TinyConfig
from studies.similarity.published import PUBLISHED
from tests.studies.finetune.fixtures import nli_rows, write_jsonl, write_ppdb

BOTH = ("nli", "identification", "classification")
CHANGED = {
    "objectives": [("nli",), ("nli", "identification"), ("nli", "classification"), BOTH],
    "pooling": ["cls", "max", "mean"],
    "concatenation": ["uv", "diff", "prod", "uv-diff", "uv-prod", "diff-prod", "uv-diff-prod"],
    "negatives": [1, 3, 5, 7],
}
"""Table 4 from top to bottom."""


@pytest.mark.parametrize("block", get_args(Ablation))
def test_a_block_changes_one_option_as_table_4_does(block: Ablation, tmp_path: Path) -> None:
    config = BurtConfig(output=tmp_path, ablation=block)
    rows = variants(config)
    assert [getattr(row, block) for row in rows.values()] == CHANGED[block]
    for row in rows.values():
        unchanged = dataclasses.replace(row, **{block: getattr(config, block), "output": tmp_path})
        assert unchanged == dataclasses.replace(config, ablation=None)
    assert len({row.output for row in rows.values()}) == len(rows)


def test_the_rows_are_named_as_published_and_share_the_full_model(tmp_path: Path) -> None:
    names = [row.name for rows in GRIDS.values() for row in rows]
    assert names == list(PUBLISHED["ablation"])
    folders = [row.folder for rows in GRIDS.values() for row in rows]
    assert len(folders) == 18 and len(set(folders)) == 15 and folders.count("full") == 4


def test_an_option_that_the_table_keeps_fixed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--ablation pooling sets --negatives itself"):
        variants(BurtConfig(output=tmp_path, ablation="pooling", negatives=5))


def test_a_block_trains_every_row_from_one_backbone(tmp_path: Path) -> None:
    config = BurtConfig(
        output=tmp_path / "out",
        ablation="pooling",
        backbone="tiny",
        nli=(write_jsonl(tmp_path / "nli.jsonl", nli_rows(40, 1)),),
        ppdb=(write_ppdb(tmp_path / "ppdb.txt"),),
        held_out=0.2,
        batch_size=8,
        epochs=0.5,
        tiny=TinyConfig(layers=1, hidden=32, vocabulary=300),
        loop=LoopConfig(learning_rate=1e-3),
    )
    text = ablate(config)
    assert [line.split(" | ")[0] for line in text.splitlines()[4:7]] == ["| CLS", "| MAX", "| MEAN"]
    assert "studies.similarity" in text and str(tmp_path / "out/full") in text
    for folder in ("cls", "max", "full"):
        assert (tmp_path / "out" / folder / "modules.json").exists()
        assert not (tmp_path / "out" / folder / "backbone").exists()
    assert ablate(config) == text, "finished rows are not trained again"


def test_the_preset_has_the_papers_values() -> None:
    config = BurtConfig(output=Path("x"), **PRESETS["paper"])
    loop = config.loop
    assert (config.batch_size, config.dropout, config.negatives, config.max_words) == (16, 0.1, 3, 6)
    assert (config.pooling, config.concatenation, config.objectives) == ("mean", "uv-diff", BOTH)
    assert (loop.betas, loop.epsilon, loop.weight_decay) == ((0.9, 0.98), 1e-9, 0.0)
    assert (loop.warmup, loop.decay, loop.clip_norm) == (0.1, True, 0.0)
    assert config.per_class == 354_000


def test_all_that_the_preset_lacks_is_listed_at_once(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    options = ("--preset", "paper", "--output", tmp_path / "out", "--backbone", tmp_path / "no")
    refused = command("studies.burt", *options)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    for part in ("--backbone", "--nli FILE", "--nli-dev", "--ppdb", "paraphrase.org", "multinli"):
        assert part in refused.stderr
    assert not (tmp_path / "out").exists()
