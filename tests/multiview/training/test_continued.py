"""Training that goes on from a model: what it gains and leaves alone, resuming, pairs, what is refused."""

import contextlib
import json
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from multiview.baselines import load_start
from multiview.config import ContinueConfig, LoopConfig
from multiview.encoders.meaning import Readout, Scale
from multiview.folder.card import StartCard
from multiview.folder.files import load_model
from multiview.model import MultiViewEncoder
from multiview.model_config import MeaningConfig
from multiview.names.constructors import encoder_of
from multiview.train import cli, main
from multiview.training.continued import loss_of
from multiview.training.fit import store_readout
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import read_json, read_record, write_record
from runtime.training_loop import read_log
from tests.fixtures.kills import dies_at
from tests.fixtures.training import assert_same_files
from tests.fixtures.trees import TINY, changed, toy_corpus, write_glove
from tests.parsing.pipeline.toy_parsers import ToyConstituencyParser, ToyDependencyParser, write_cache


@pytest.fixture(scope="module")
def start(toy_trees: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of dep and const over fixed words, with the words' mean, a read-out and a scale."""
    folder = tmp_path_factory.mktemp("start")
    vectors = write_glove(folder / "glove.txt")
    config = changed(
        TINY, trees=toy_trees, output=folder / "models", name="views", views="dep,const,bag", words="fixed"
    )
    loop = {"max_steps": 1, "epochs": 2, "learning_rate": 1e-2}
    with contextlib.chdir(folder):  # converted vectors go to runs/vectors
        assert main(changed(config, vectors=str(vectors), loop=loop)) == 0
    torch.manual_seed(0)
    dim = 20
    readout, scale = (
        Readout(torch.randn(5, dim), torch.randn(5), "drawn"),
        Scale(torch.zeros(dim), torch.ones(dim)),
    )
    store_readout(folder / "models/views", folder / "start", readout, scale, "# A card\n", 0.1)
    return folder / "start"


@pytest.fixture
def going_on(start: Path, toy_trees: Path, tmp_path: Path, monkeypatch) -> ContinueConfig:
    monkeypatch.chdir(tmp_path)
    loop = LoopConfig(batch=20, validation=26, learning_rate=1e-2)
    return ContinueConfig(
        start=str(start), trees=toy_trees, output=tmp_path / "models", name="on", loop=loop, device="cpu"
    )


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_model(folder).network.state_dict()


def test_going_on_gains_and_leaves_the_rest(going_on: ContinueConfig, start: Path, toy_trees: Path) -> None:
    assert main(changed(going_on, views="dep")) == 0
    before, after = weights_of(start), weights_of(going_on.folder)
    moved = {name.rsplit(".", 1)[0] for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"encoders.0", "readout"}
    rows = [row for row in read_log(going_on.folder / "log.jsonl") if row["kind"] == "evaluation"]
    assert rows[0]["step"] == 0 and min(row["loss"] for row in rows) < rows[0]["loss"]
    assert rows[0]["loss/kept"] == pytest.approx(0, abs=1e-6)
    assert "loss/views" not in rows[0]  # one view has no other
    record = read_json(going_on.folder / "config.json")
    assert record["structure"] == 0.1 and record["training"]["start"]["model"] == str(start)
    card = (going_on.folder / "README.md").read_text()
    assert f"the start, `{start}` (see {start}/README.md); the text, `toy`" in card
    assert f"python -m multiview.train --preset laptop --start {start} --views dep" in card
    trees = TreeCache.open(toy_trees)
    vectors = [
        encoder.encode(None, trees=trees)
        for encoder in (
            load_start(going_on.folder, toy_trees),
            *map(MultiViewEncoder.load, (start, going_on.folder)),
        )
    ]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.abs(vectors[2] - vectors[0]).max() > 0.01
    labels = {
        encoder_of(name).label() for name in (str(start), f"start:{going_on.folder}?corpus={toy_trees}")
    }
    assert labels == {"meaning, structure 0.1"}


@pytest.mark.parametrize("micro_batch", [0, 7])
def test_the_readout_is_trained_alone(going_on: ContinueConfig, start: Path, micro_batch: int) -> None:
    config = changed(going_on, views="none", loop={"max_steps": 2, "micro_batch": micro_batch})
    assert main(config) == 0
    before, after = weights_of(start), weights_of(going_on.folder)
    assert {name for name in before if not torch.equal(before[name], after[name])} == {
        "readout.weight",
        "readout.bias",
    }


def test_without_held_out_sentences_no_gain_is_known(going_on: ContinueConfig) -> None:
    """The scores of the kept weights are then those of the last steps."""
    assert main(changed(going_on, loop={"validation": 0})) == 0
    assert "unknown: no sentence was held out" in (going_on.folder / "README.md").read_text()


def test_what_gains_nothing_is_the_start(going_on: ContinueConfig, start: Path) -> None:
    """The step of least validation loss is kept, that before the first one included."""
    assert main(changed(going_on, objective={"keep": 1e6}, loop={"max_steps": 4})) == 0
    before, after = weights_of(start), weights_of(going_on.folder)
    assert all(torch.equal(before[name], after[name]) for name in before)
    card = (going_on.folder / "README.md").read_text()
    assert f"no gain: this is {start}: no step was better" in card


def test_a_model_that_finds_no_more_neighbours_is_not_recommended(going_on: ContinueConfig) -> None:
    """The loss may fall all the same, as on a few hundred sentences."""
    card = StartCard(going_on, MagicMock(folder=Path("trees")))
    for found, model in ((0.31, going_on.folder), (0.3, going_on.start)):
        best = {"loss": 1.0, "step": 5, "recall@1": found, "recall@1/words": 0.2}
        verdict = dict(card.verdict({"loss": 2.0, "recall@1": 0.3}, best))
        assert ("no gain" in verdict) == (model == going_on.start)
        assert f"multiview.search {model} trees" in verdict["next"]


@pytest.mark.parametrize("kind", ["text", "both"])
def test_a_stopped_run_ends_in_the_same_bits(
    going_on: ContinueConfig, pair_file: Path, tmp_path: Path, monkeypatch, kind: str
) -> None:
    monkeypatch.setattr("runtime.training_loop.CHECKPOINT_S", 0.0)
    pairs = (pair_file,) if kind == "both" else ()
    config = changed(going_on, output=Path("models"), pairs=pairs, loop={"max_steps": 12})
    for name, deaths in (("whole", ()), ("killed", (4, 3))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        for steps in deaths:
            with dies_at(steps):
                main(config)
        assert main(config) == 0
    assert_same_files(tmp_path / "whole/models", tmp_path / "killed/models")


def test_a_new_view_joins_and_changes_nothing_at_first(going_on: ContinueConfig, start: Path) -> None:
    assert main(changed(going_on, views="dep,seq", loop={"max_steps": 1, "learning_rate": 30.0})) == 0
    model = load_model(going_on.folder)
    assert model.network.views == ("dep", "const", "seq", "bag") and model.network.scale is not None
    assert model.network.readout is not None and not model.network.readout.weight[:, 16:24].any()
    torch.testing.assert_close(
        weights_of(start)["readout.weight"][:, 16:], model.network.readout.weight[:, 24:]
    )


@pytest.fixture
def pair_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pairs of toy sentences that follow each other, which the toy parsers parse."""
    parsers = {"dep": ToyDependencyParser(), "const": ToyConstituencyParser()}
    monkeypatch.setattr("multiview.folder.reading.SentenceReader.parser", lambda _, kind: parsers[kind])
    texts, path = [" ".join(words) for words in toy_corpus(200, seed=3)[0]], tmp_path / "pairs.tsv"
    rows = [
        f"{one} {n}\t{other} {n}" for n, (one, other) in enumerate(zip(texts[::2], texts[1::2], strict=True))
    ]
    path.write_text("\n".join(["anchor\tpositive", *rows]) + "\n", encoding="utf-8")
    return path


def test_pairs_alone(going_on: ContinueConfig, pair_file: Path, tmp_path: Path, capsys) -> None:
    queries = tmp_path / "queries.tsv"
    queries.write_text("query\trelevant\ncat\tmouse\n", encoding="utf-8")
    assert main(changed(going_on, trees=None, pairs=(pair_file,), queries=queries)) == 0
    rows = [row for row in read_log(going_on.folder / "log.jsonl") if row["kind"] == "evaluation"]
    assert rows[0]["loss"] == rows[0]["pairs/loss"] > min(row["loss"] for row in rows)
    assert "recall@1" not in rows[0]
    card = (going_on.folder / "README.md").read_text()
    assert f"the pairs, `{pair_file}`" in card and "the text" not in card
    output = capsys.readouterr().err
    assert "pairs      the partner is first in" in output and "queries    1 among 1 sentences" in output
    assert f"{going_on.start} P@1 100.0" in output and f"{going_on.folder} P@1 100.0" in output


def test_text_and_pairs_take_turns(going_on: ContinueConfig, pair_file: Path) -> None:
    graded = pair_file.with_name("graded.jsonl")
    rows = [line.split("\t") for line in pair_file.read_text().splitlines()[1:]]
    objects = [{"sentence1": a, "sentence2": b, "score": n % 6} for n, (a, b) in enumerate(rows)]
    graded.write_text("".join(json.dumps(row) + "\n" for row in objects), encoding="utf-8")
    assert main(changed(going_on, pairs=(graded,), loop={"max_steps": 6})) == 0
    steps = [row for row in read_log(going_on.folder / "log.jsonl") if row["kind"] == "train"]
    assert ["loss/grades" in row for row in steps] == [False, True] * 3
    rows = [row for row in read_log(going_on.folder / "log.jsonl") if row["kind"] == "evaluation"]
    assert -1 <= rows[0]["pairs/spearman"] <= 1 and rows[0]["recall@1"] > 0
    assert rows[0]["loss"] > rows[0]["pairs/loss"] > 0


def test_graded_pairs_alone_are_decided_by_their_ranks(going_on: ContinueConfig, pair_file: Path) -> None:
    """The loss of the cosines' errors may rise while the correlation does, or fall."""
    graded = pair_file.with_name("graded.tsv")
    rows = [line.split("\t") for line in pair_file.read_text().splitlines()[1:]]
    lines = [f"{a}\t{b}\t{n % 3}" for n, (a, b) in enumerate(rows)]
    graded.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n", encoding="utf-8")
    assert main(changed(going_on, trees=None, pairs=(graded,), loop={"learning_rate": 0.3})) == 0
    rows = [row for row in read_log(going_on.folder / "log.jsonl") if row["kind"] == "evaluation"]
    best = max(rows, key=lambda row: row["pairs/spearman"])
    assert best != min(rows, key=lambda row: row["loss"])  # else nothing is told apart
    assert read_json(going_on.folder / "config.json")["training"]["step"] == best["step"]


def test_a_start_that_records_no_parsers_learns_from_pairs(going_on, pair_file: Path, tmp_path: Path) -> None:
    MultiViewEncoder.untrained("dep,const", dim=8, word_dim=8, device="cpu").save(tmp_path / "drawn")
    start = str(tmp_path / "drawn")
    loop = {
        "max_steps": 1,
        "patience": 2,
        "validation": 0,
    }  # held-out pairs validate, not sentences of a text
    assert main(changed(going_on, start=start, trees=None, pairs=(pair_file,), loop=loop)) == 0


@pytest.mark.parametrize("grades", [None, (0, 1, 1), (1,) * 19 + (0,)])
def test_pairs_too_few_or_of_one_grade_are_refused(going_on, tmp_path: Path, grades) -> None:
    path = tmp_path / "few.tsv"
    rows = [
        f"cat {n}\tdog {n}" + ("" if grades is None else f"\t{grade}")
        for n, grade in enumerate(grades or (1, 1))
    ]
    header = "anchor\tpositive" if grades is None else "sentence1\tsentence2\tscore"
    path.write_text("\n".join([header, *rows]), encoding="utf-8")
    with pytest.raises(
        UserError, match=r"few\.tsv: .* rows to train on and . that are held out are too few, or have one"
    ):
        main(changed(going_on, trees=None, pairs=(path,)))


def test_what_cannot_be_gone_on_from(
    going_on, start, pair_file, tiny, tmp_path, refusal, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    only_dep, other = tmp_path / "only-dep", tmp_path / "other"
    write_cache(only_dep, *toy_corpus(60), views=("dep",))
    monkeypatch.setattr(
        ToyDependencyParser, "identity", {"name": "toy-dep", "version": "2", "sha256": "2" * 64}
    )
    write_cache(other, *toy_corpus(60))
    for name in ("old", "nan"):
        (tmp_path / name).mkdir()
        for file in start.iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
    content = read_json(start / "config.json")
    (tmp_path / "old/config.json").write_text(json.dumps(content | {"format": 2}), encoding="utf-8")
    weights = load_file(start / "model.safetensors")
    weights["readout.bias"][0] = torch.nan
    save_file(weights, tmp_path / "nan/model.safetensors")
    record = read_record(start / "config.json")
    write_record(tmp_path / "nan/config.json", record, tuple(record["files"]))
    trees, on = f"--trees={tiny.trees}", f"--start={start}"
    cases = {
        "old/config.json: model format 2, this program reads 4": [trees, "--start=old"],
        "--start nan: its weights readout.bias are not finite": [trees, "--start=nan"],
        "nowhere: no model here": [trees, "--start=nowhere"],
        "has no const trees; or train new views over these trees: --start none": [f"--trees={only_dep}", on],
        "was parsed by toy-dep 2": [f"--trees={other}", on],
        "--views bag: bag has nothing to train": [trees, on, "--views=bag"],
        "view 'srl'": [trees, on, "--views=srl"],
        "models/views has no read-out to train; name views": [
            trees,
            f"--start={start.parent}/models/views",
            "--views=none",
        ],
        "--views dep,seq: seq can join a start with a read-out only": [
            trees,
            f"--start={start.parent}/models/views",
            "--views=dep,seq",
        ],
        "--views dep,dep: names a view twice": [trees, on, "--views=dep,dep"],
        "--encoder.dim 64: an option of new views, which --start builtin has; give --start none": [
            *(trees, "--encoder.dim=64")
        ],
        "--vectors none: an option of new views": [trees, on, "--vectors=none"],
        "--objective.teacher x.npy: an option of new views": [trees, on, "--objective.teacher=x.npy"],
        "--pairs: needs a model to go on from": [trees, "--start=none", "--pairs", pair_file],
        "--objective.keep: needs a model to go on from": [trees, "--start=none", "--objective.keep=3"],
        "--validation x.tsv: validates --pairs": [trees, on, "--validation=x.tsv"],
        "x.tsv: no such file": [on, "--pairs", "x.tsv"],
        "q.tsv: no such file": [trees, on, "--queries", "q.tsv", "--dry-run"],
    }
    for message, words in cases.items():
        assert message in refusal(cli, *words, "--device=cpu", "--loop.batch=8"), message
        assert not Path("runs/models").exists(), message


@pytest.mark.parametrize(
    ("pairs", "trees", "keep", "expected"),
    [
        (0, None, None, (20, 0.05)),
        (1, None, None, (5, 0.1)),
        (1, Path("trees"), None, (20, 0.05)),
        (0, None, 0.0, (0, 0.05)),
    ],
)
def test_how_much_the_start_is_kept(
    pairs: int, trees: Path | None, keep: float | None, expected: tuple[float, float]
) -> None:
    config = ContinueConfig(pairs=(Path("a.tsv"),) * pairs, trees=trees, objective=MeaningConfig(keep=keep))
    loss = loss_of(config)
    assert (loss.keep, loss.temperature) == expected
