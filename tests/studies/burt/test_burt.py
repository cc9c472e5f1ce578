"""BURT end to end on a made-up language: it learns, it is a model folder, its ablation is Table 4."""

import dataclasses
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock

import numpy as np
import pytest

from runtime.errors import UserError
from runtime.files import read_record
from senteval_runner.towers.transformer import load_tower
from studies.burt import train
from studies.burt.config import Ablation, BurtConfig
from studies.burt.train import GRIDS, one_round, read_data, steps_per_epoch, train_all, variants
from studies.finetune.examples import Examples, split_phrases, usable_phrases
from studies.runner import StudyRun, read_published, run_study
from tests.fixtures.processes import ROOT
from tests.studies.finetune.fixtures import SYNONYMS, nli_rows, ppdb_line, write_jsonl, write_ppdb

ALL = ("nli", "identification", "classification")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    old = folder / "ppdb1.txt"
    old.write_text("\n".join(ppdb_line(a, b) for a, b in SYNONYMS), encoding="utf-8")
    return {
        "nli": write_jsonl(folder / "train.jsonl", nli_rows(240, 1)),
        "nli_dev": write_jsonl(folder / "dev.jsonl", nli_rows(90, 2)),
        "ppdb": write_ppdb(folder / "ppdb.txt"),
        "ppdb1": old,
    }


def config(files: dict[str, Path], output: Path, **options: Any) -> BurtConfig:
    data = {name: (files[name],) for name in ("nli", "nli_dev", "ppdb")}
    values = {"backbone": "tiny", "held_out": 0.0, "learning_rate": 1e-3, **options}
    return BurtConfig(output=output, **{**data, **values})


ROWS = [
    ("quick", "fast", "Equivalence"),
    ("big", "large", "Equivalence"),
    ("very big", "big", "ForwardEntailment"),
    ("large", "very large", "ReverseEntailment"),
    ("red", "quick", "Independent"),
    ("hot", "cold", "Exclusion"),
    ("oven", "cold", "OtherRelated"),
    ("shop", "store", None),
]


def test_phrases_are_short_and_different_and_their_labels_are_kept_ones() -> None:
    six = "a b c d e f"
    pairs = [(six, "x"), (six + " g", "x"), ("x", six), (six, "x"), ("x", "x")]
    rows = usable_phrases((a, b, None) for a, b in pairs)
    assert rows.pairs == [(six, "x"), ("x", six)], "each direction once"
    assert usable_phrases(ROWS).target.tolist() == [0, 0, 1, 1, 2, -1]


def test_classes_are_balanced_before_the_split_and_all_are_positive_pairs() -> None:
    """BURT counts more than a million positive pairs: three labels of 354k, Independent among them."""
    rows, none = split_phrases(ROWS, per_class=354_000, fraction=0.0)
    assert rows.target.tolist() == [0, 1, 2, -1] and not len(none)
    assert rows.first[1] in ("very big", "large") and rows.first[2:] == ["red", "shop"]
    many = [(f"{a} {i}", b, label) for a, b, label in ROWS[:7] for i in range(4)]
    for limit, size in ((10**6, 4), (3, 3)):
        assert np.bincount(split_phrases(many, limit, 0.0)[0].target).tolist() == [size] * 3
    # 354k of each label before the split are UNI's 343k after it; here 400, of which 3 % are held out.
    labels = ("Equivalence", "ForwardEntailment", "Independent")
    sides = split_phrases([(f"{i} x", label, label) for label in labels for i in range(600)], 400, 0.03)
    assert sum(map(len, sides)) == 1200
    assert np.bincount(sides[0].target).tolist() == pytest.approx([0.97 * 400] * 3, abs=12)


def test_a_held_out_phrase_is_no_negative_in_training(files: dict[str, Path], tmp_path: Path) -> None:
    def sides(rows: list[tuple[str, str]]) -> list[Examples]:
        """Training and held-out examples of identification."""
        lines = [ppdb_line(a, b, "Equivalence") for a, b in rows]
        (tmp_path / "ppdb.txt").write_text("\n".join(lines))
        paths = {**files, "ppdb": tmp_path / "ppdb.txt"}
        data = read_data(config(paths, tmp_path, objectives=("identification",), held_out=0.2))
        return [data["identification"].draw(0), data["identification"].held_out]

    training, development = sides([(f"a {i}", f"b {i}") for i in range(90)])
    paraphrases = development.take(development.target == 1)
    assert len(paraphrases) > 5 and not {*training.texts} & {*paraphrases.texts}
    # All x are paraphrases, all y are: who knows one side of the split alone would take some for negatives.
    for side in sides([(f"{one} {i}", f"{one} {j}") for one in "xy" for i in range(12) for j in range(i)]):
        assert [a[0] == b[0] for a, b in side.pairs] == side.target.tolist()


def test_unseen_premises_are_dropped_under_any_tokenisation(tmp_path: Path) -> None:
    label, premises = "neutral", ("A man isn't here .", "A dog")
    train = write_jsonl(tmp_path / "train.jsonl", [*((label, one, "x") for one in premises), ("-", "b", "x")])
    dev = write_jsonl(tmp_path / "dev.jsonl", [(label, "a man is n't here.", "y")])
    pairs = read_data(BurtConfig(output=tmp_path, nli=(train,), nli_dev=(dev,), objectives=("nli",)))["nli"]
    assert pairs.draw(0).first == ["A dog"] and len(pairs.held_out) == 1
    assert "dropped 1 without a three-way label, 1 whose premise" in pairs.summary


@pytest.mark.usefixtures("fake_device")
def test_a_device_trains(files: dict[str, Path], tmp_path: Path) -> None:
    settings = config(files, tmp_path / "burt", objectives=("nli", "identification"), epochs=0.3)
    assert run_study(settings, train_all) == 0


def test_training_improves_nli_and_finds_synonyms(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer

    load = Mock(wraps=load_tower)
    monkeypatch.setattr(train, "load_tower", load)
    # PPDB 1.0 has paraphrases alone. |u-v|, u*v: with so few phrases the paper's u, v are learnt by heart.
    settings = config(
        {**files, "ppdb": files["ppdb1"]},
        tmp_path / "burt",
        objectives=("nli", "identification"),
        concatenation="diff-prod",
        epochs=4.0,
        learning_rate=2e-3,
    )
    assert run_study(settings, train_all) == 0
    assert [(call.kwargs["dropout"], call.kwargs["max_length"]) for call in load.call_args_list] == [
        (0.1, 128)
    ]
    before, *_, after = read_record(settings.output / "cell.json")["figures"]["history"]
    assert before["nli"] < 0.5 and after["nli"] > before["nli"] + 0.2
    model = SentenceTransformer(str(settings.output), device="cpu")
    assert model[1].pooling_mode == "mean"
    u, v = (model.encode([pair[side] for pair in SYNONYMS], normalize_embeddings=True) for side in (0, 1))
    products = u @ v.T
    assert np.diag(products).mean() > products.mean() + 0.2


def test_every_second_batch_is_nli_and_the_others_alternate() -> None:
    assert one_round(ALL) == ("nli", "identification", "nli", "classification")
    assert one_round(["nli"]) == ("nli",)
    assert one_round(["classification", "identification"]) == ("identification", "classification")


def test_an_epoch_is_one_pass_over_nli_or_the_longest_set() -> None:
    batches = {"nli": 10, "identification": 1000, "classification": 3}
    assert [steps_per_epoch(one_round(names), batches) for names in (ALL, ["nli"], ALL[1:])] == [20, 10, 2000]


VALUES_OF_TABLE_4 = {
    "objectives": [("nli",), ("nli", "identification"), ("nli", "classification"), ALL],
    "pooling": ["cls", "max", "mean"],
    "concatenation": ["uv", "diff", "prod", "uv-diff", "uv-prod", "diff-prod", "uv-diff-prod"],
    "negatives": [1, 3, 5, 7],
}
"""Of each option, from top to bottom."""


@pytest.mark.parametrize("block", get_args(Ablation))
def test_a_block_changes_one_option_as_table_4_does(block: Ablation, tmp_path: Path) -> None:
    full_model = BurtConfig(output=tmp_path, ablation=block)
    rows = variants(full_model).values()
    assert [getattr(row, block) for row in rows] == VALUES_OF_TABLE_4[block]
    options = {block: getattr(full_model, block), "output": full_model.output}
    assert all(dataclasses.replace(row, **options) == full_model for row in rows)


def test_the_rows_are_named_as_published_and_share_the_full_model(tmp_path: Path) -> None:
    names = [name for rows in GRIDS.values() for name in rows]
    assert names == list(read_published(ROOT / "studies/similarity/published-ablation.csv"))
    blocks = [variants(BurtConfig(output=tmp_path, ablation=block)) for block in get_args(Ablation)]
    folders = [row.output.name for rows in blocks for row in rows.values()]
    assert len(folders) == 18 and len(set(folders)) == 15 and folders.count("full") == 4
    with pytest.raises(UserError, match="no backbone: give --backbone"):
        train_all(BurtConfig(output=tmp_path, nli=(tmp_path,)), StudyRun(tmp_path))
    with pytest.raises(UserError, match="--ablation pooling sets --negatives itself"):
        variants(BurtConfig(output=tmp_path, ablation="pooling", negatives=5))
