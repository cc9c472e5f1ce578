"""EMP's Table 3: success and recall, chosen layers, the cross-encoder's length, published rows, preset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpora.ranking.questions import Question
from corpora.support.config import check
from corpora.support.errors import UserError
from corpora.support.presets import preset_defaults
from studies.finetune.config import TinyConfig
from studies.finetune.tiny import build_tiny
from studies.passages import cross, paper, published
from studies.passages.config import CrossConfig, FrozenConfig, PassagesConfig, RankerConfig
from studies.passages.metrics import METRICS, mean, measure
from studies.passages.run import make_plan, run
from tests.studies.passages import passage_sets


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [row.split("\t") for row in passage_sets.qa_rows(60, 1, "q")]
    config = TinyConfig(layers=3, hidden=64, vocabulary=200, max_length=40)
    folder = tmp_path_factory.mktemp("tiny") / "bert"
    return str(build_tiny(folder, [text for row in rows for text in row[2:]], config, seed=0))


def options(**changes: Any) -> PassagesConfig:
    values: dict[str, Any] = {
        "sets": ("wikiqa",),
        "baselines": (),
        "features": ("cosine",),
        "ranker": RankerConfig(epochs=2),
        "output": Path("out"),
        "cache": Path("vectors"),
    }
    return PassagesConfig(**{**values, **changes})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    passage_sets.write_wikiqa(tmp_path / "wikiqa", (20, 8, 8))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_success_asks_for_one_relevant_passage_and_recall_for_all() -> None:
    """Relevant at ranks 1, 4 and 6 of eight, and one that is not among the candidates."""
    relevant = np.array([1, 0, 0, 1, 0, 1, 0, 0], dtype=bool)
    scores = np.arange(8.0)[::-1]
    found = mean(measure([Question("q", "q", np.arange(8), relevant, 1)], [scores]))
    assert (found["s@1"], found["s@5"], found["s@10"]) == (1, 1, 1)
    assert (found["r@1"], found["r@5"], found["r@10"]) == (1 / 4, 2 / 4, 3 / 4)
    late = mean(measure([Question("q", "q", np.arange(8), relevant[::-1].copy(), 0)], [scores]))
    assert (late["s@1"], late["s@5"]) == (0, 1)


def test_every_choice_of_layers_and_pooling_is_a_model(world: Path, bert: str) -> None:
    frozen = FrozenConfig(backbones=(bert,), layers=("top,bottom", "-2"), poolings=("mean", "cls"))
    assert run(options(frozen=frozen)) == 0
    rows = json.loads(Path("out/results.json").read_text())["rows"]
    assert [row["model"] for row in rows] == [
        f"bert {u}" for u in ("-1,-3 mean", "-1,-3 cls", "-2 mean", "-2 cls")
    ]
    assert [row["info"][0]["dimensions"] for row in rows] == [128, 128, 64, 64]
    assert len({json.dumps(row["metrics"]) for row in rows}) > 1


def test_the_default_choice_is_the_papers(bert: str) -> None:
    model = make_plan(options(sets=(), frozen=FrozenConfig(backbones=(bert,)))).models[0]
    assert model.name == "bert -1,-3 mean" and FrozenConfig().max_length == 512


def test_a_layer_that_is_not_there_is_named_and_the_rest_finishes(world: Path, bert: str) -> None:
    frozen = FrozenConfig(backbones=(bert,), layers=("-9", "top"))
    assert run(options(frozen=frozen)) == 2
    values = json.loads(Path("out/results.json").read_text())
    assert "no layer '-9'" in values["left_out"][0] and len(values["rows"]) == 1


def test_the_cross_encoder_reads_as_much_as_its_backbone(bert: str) -> None:
    assert CrossConfig().max_length is None
    assert cross.load_tower(bert, max_length=CrossConfig().max_length).model.max_seq_length == 40
    with pytest.raises(UserError, match=r"--cross\.max-length 3"):
        check(options(cross=CrossConfig(max_length=3)))


def test_without_anything_to_rank_with_the_command_says_what_to_give(world: Path) -> None:
    with pytest.raises(UserError, match=r"bert-base-uncased .* as --frozen\.backbones"):
        run(options())


def test_published_rows_stand_below_the_set_they_belong_to(world: Path) -> None:
    passage_sets.write_insuranceqa(world / "insuranceqa")
    assert run(options(sets=("wikiqa", "insuranceqa"), baselines=("bm25",), keep="all")) == 0
    wikiqa, insurance = Path("out/tables.md").read_text().split("## insuranceqa")
    assert "Published" not in wikiqa
    row = next(line for line in insurance.splitlines() if line.startswith("| *In-domain"))
    found = dict(zip(METRICS, (cell.strip(" *") for cell in row.split("|")[4:-1]), strict=True))
    assert {name: value for name, value in found.items() if value != "–"} == {
        "p@1": "78.3", "p@5": "25.4", "p@10": "13.7"}  # fmt: skip
    assert [len(rows) for _, rows in published.TABLE_3.values()] == [5, 6, 4, 4]
    assert published.quoted("quasar-t")[0][3 + METRICS.index("s@1")] == 38.7


def test_the_preset_has_the_papers_values() -> None:
    config = preset_defaults(PassagesConfig, paper.PRESETS)(["--preset", "paper"])
    assert (config.margin, config.features) == (0, ("cosine", "bilinear", "uv", "uv-diff-prod"))
    assert config.scorers == ("linear", "mlp") and config.baselines == ("bm25",) and config.models == ()
    assert (config.frozen.layers, config.frozen.poolings) == (("top,bottom",), ("mean",))
    assert config.frozen.max_length == 512 and config.cross.max_length is None
    assert [paper.parse_spec(spec)[0] for spec in config.sets] == list(published.TABLE_3)


def test_the_preset_lists_all_that_is_missing(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.finetune.backbone.is_here", lambda name: False)
    with pytest.raises(UserError) as caught:
        run(PassagesConfig(**paper.PRESETS["paper"]))
    told = str(caught.value)
    assert "\n" not in told and not (world / "runs").exists()
    for name in (*paper.SETS, *paper.SETS.values(), paper.BERT, paper.BERT_SNLI, "--cross.backbones"):
        assert name in told


def test_the_preset_ranks_the_papers_sets(world: Path, bert: str) -> None:
    passage_sets.write_wikipassageqa(world / "wikipassageqa")
    passage_sets.write_insuranceqa(world / "insuranceqa")
    passage_sets.write_quasar(world / "quasar-t")
    passage_sets.write_searchqa(world / "searchqa")
    values = {
        **paper.PRESETS["paper"],
        "sets": tuple(paper.SETS),
        "frozen": FrozenConfig(backbones=(bert, bert + "/")),
        "cross": CrossConfig(backbones=(bert,)),
    }
    config = PassagesConfig(**values)
    paper.refuse_missing_inputs(config)  # all is here
    plan = make_plan(config)
    # four sets x (BM25, two encoders x (cosine, bilinear, uv and all four under two scorers), cross-encoder)
    assert len(plan.cells()) == 56 and not plan.errors
