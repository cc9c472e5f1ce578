"""BURT end to end on a made-up language: it learns, it is a model folder, its ablation is Table 4."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import studies.burt
from corpora.support.errors import UserError
from corpora.support.files import read_record
from studies.burt.__main__ import cli
from studies.burt.config import Ablation, BurtConfig
from studies.burt.data import read_data
from studies.burt.train import GRIDS, one_round, steps_per_epoch, train_all, variants
from studies.finetune.loop import LoopConfig
from studies.kit.data import published, read_presets
from studies.kit.runner import run_study
from tests.conftest import ROOT
from tests.studies.finetune.fixtures import (
    SYNONYMS,
    nli_rows,
    ppdb_line,
    write_jsonl,
    write_ppdb,
)

ALL = ("nli", "identification", "classification")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    return {
        "nli": write_jsonl(folder / "train.jsonl", nli_rows(400, 1)),
        "nli_dev": write_jsonl(folder / "dev.jsonl", nli_rows(150, 2)),
        "ppdb": write_ppdb(folder / "ppdb.txt"),
    }


def config(files: dict[str, Path], output: Path, **options: Any) -> BurtConfig:
    data = {name: (files[name],) for name in ("nli", "nli_dev", "ppdb")}
    values = {"backbone": "tiny", "held_out": 0.0, "learning_rate": 1e-3, **options}
    return BurtConfig(output=output, **{**data, **values})


def unlabelled(folder: Path) -> Path:
    """The synonyms as PPDB 1.0 lists them."""
    path = folder / "ppdb1.txt"
    path.write_text("\n".join(ppdb_line(a, b) for a, b in SYNONYMS), encoding="utf-8")
    return path


def test_data_is_filtered_counted_and_split(files: dict[str, Path], tmp_path: Path) -> None:
    data = read_data(config(files, tmp_path, held_out=0.3))
    nli, pairs, classes = (data.train[name](0) for name in ALL)  # type: ignore[index]
    assert not set(nli.first) & set(data.held["nli"].first) and len(data.held["nli"]) == 150
    positive = {
        pair
        for pair, y in zip(zip(pairs.first, pairs.second or [], strict=True), pairs.target, strict=True)
        if y
    }
    assert set(zip(classes.first, classes.second or [], strict=True)) <= positive
    for examples in (classes, data.held["classification"]):
        assert len(set(np.bincount(examples.target).tolist())) == 1, "equal classes on both sides"
    assert any("60 of 90 rows" in line for line in data.summary)
    few = read_data(config(files, tmp_path, per_class=4)).train["classification"](0)
    assert np.bincount(few.target).tolist() == [4, 4, 4]


def test_missing_data_is_named(files: dict[str, Path], tmp_path: Path) -> None:
    for options, told in (
        ({"nli": ()}, "nli needs --nli"),
        ({"ppdb": ()}, "--ppdb"),
        ({"ppdb": (unlabelled(tmp_path),)}, "classification needs PPDB 2.0"),
    ):
        with pytest.raises(UserError, match=told):
            read_data(config(files, tmp_path, **options))


def test_training_improves_nli_and_finds_synonyms(files: dict[str, Path], tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    # PPDB 1.0 has paraphrases alone. |u-v|, u*v: with so few phrases the paper's u, v are learnt by heart.
    settings = config(
        {**files, "ppdb": unlabelled(tmp_path)},
        tmp_path / "burt",
        objectives=("nli", "identification"),
        concatenation="diff-prod",
        epochs=4.0,
    )
    assert run_study(settings, train_all) == 0
    before, *_, after = read_record(settings.output / "cell.json")["figures"]["history"]
    assert before["nli"] < 0.5
    assert after["nli"] > before["nli"] + 0.2
    assert "| model | nli |" in (settings.output / "report.md").read_text(encoding="utf-8")
    model = SentenceTransformer(str(settings.output), device="cpu")
    assert model[1].pooling_mode == "mean"
    u, v = (model.encode([pair[side] for pair in SYNONYMS], normalize_embeddings=True) for side in (0, 1))
    products = u @ v.T
    assert np.diag(products).mean() > products.mean() + 0.2
    # the result is a tower again
    again = config(files, tmp_path / "again", backbone=str(settings.output), epochs=0.05)
    assert run_study(again, train_all) == 0


def test_every_second_batch_is_nli_and_the_others_alternate() -> None:
    assert one_round(ALL) == ("nli", "identification", "nli", "classification")
    assert one_round(["nli"]) == ("nli",)
    assert one_round(["classification", "identification"]) == ("identification", "classification")


def test_an_epoch_is_one_pass_over_nli_or_the_longest_set() -> None:
    batches = {"nli": 10, "identification": 1000, "classification": 3}
    assert [steps_per_epoch(one_round(names), batches) for names in (ALL, ["nli"], ALL[1:])] == [20, 10, 2000]


CHANGED = {
    "objectives": [("nli",), ("nli", "identification"), ("nli", "classification"), ALL],
    "pooling": ["cls", "max", "mean"],
    "concatenation": ["uv", "diff", "prod", "uv-diff", "uv-prod", "diff-prod", "uv-diff-prod"],
    "negatives": [1, 3, 5, 7],
}
"""Table 4 from top to bottom."""


@pytest.mark.parametrize("block", get_args(Ablation))
def test_a_block_changes_one_option_as_table_4_does(block: Ablation, tmp_path: Path) -> None:
    rows = variants(BurtConfig(output=tmp_path, ablation=block))
    assert [getattr(row, block) for _, row in rows.values()] == CHANGED[block]
    for _, row in rows.values():
        plain = BurtConfig(output=tmp_path, ablation=block)
        assert dataclasses.replace(row, **{block: getattr(plain, block)}) == plain


def test_the_rows_are_named_as_published_and_share_the_full_model(tmp_path: Path) -> None:
    names = [name for rows in GRIDS.values() for name in rows]
    assert names == list(published(ROOT / "studies/similarity/published-ablation.csv"))
    blocks = [variants(BurtConfig(output=tmp_path, ablation=block)) for block in get_args(Ablation)]
    folders = [folder for rows in blocks for folder, _ in rows.values()]
    assert len(folders) == 18 and len(set(folders)) == 15 and folders.count("full") == 4
    with pytest.raises(UserError, match="--ablation pooling sets --negatives itself"):
        variants(BurtConfig(output=tmp_path, ablation="pooling", negatives=5))


def test_a_block_trains_every_row_from_one_backbone(files: dict[str, Path], tmp_path: Path) -> None:
    settings = config(files, tmp_path / "out", ablation="pooling", epochs=0.05)
    assert run_study(settings, train_all) == 0
    text = (settings.output / "report.md").read_text()
    assert "| CLS | nli |" in text and str(settings.output / "pooling-max") in text
    for folder in ("pooling-cls", "pooling-max", "full"):
        assert (settings.output / folder / "modules.json").exists()
    with pytest.raises(UserError, match="other options"):
        run_study(dataclasses.replace(settings, seed=2), train_all)


def test_the_preset_has_the_papers_values() -> None:
    settings = BurtConfig(output=Path("x"), **read_presets(BurtConfig)["paper"])
    loop = LoopConfig(learning_rate=settings.learning_rate)
    assert (settings.batch_size, settings.negatives, settings.per_class) == (16, 3, 354_000)
    assert (settings.pooling, settings.concatenation, settings.objectives) == ("mean", "uv-diff", ALL)
    assert (studies.burt.train.DROPOUT, studies.burt.data.MAX_WORDS) == (0.1, 6)
    assert (loop.betas, loop.epsilon, loop.weight_decay) == ((0.9, 0.98), 1e-9, 0.0)
    assert (loop.warmup, loop.decay) == (0.1, True)


def test_the_command_refuses_what_it_cannot_do_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, told in (
        (("--preset", "paper"), "--preset paper needs --nli, --nli-dev, --ppdb: SNLI"),
        (("--nli", "none.jsonl"), "no backbone: give --backbone"),
        (("--nli", "none.jsonl", "--backbone", "tiny"), "none.jsonl"),
    ):
        assert cli(["--output", str(tmp_path / "x"), *options]) == 2
        assert told in capsys.readouterr().err.splitlines()[-1]
