"""evaluate(): order, contract, bad data; on small synthetic task files."""

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from corpora.senteval.tasks import TASKS
from multiview.encoders.meaning import Readout
from multiview.model import MultiViewEncoder
from multiview.names.constructors import encoder_of
from runtime.errors import UserError
from senteval_runner import EncoderError, evaluate
from senteval_runner.evaluation_trees import open_model
from senteval_runner.mteb import MtebEncoder
from senteval_runner.protocol.config import Protocol, Results, get_protocol
from senteval_runner.protocol.correlation import cosines
from senteval_runner.report.tables import columns_of_mean, name_of_mean, similarity_columns, similarity_row
from tests.fixtures.senteval import text, write_sts
from tests.oracles import senteval as oracle
from tests.senteval_runner.encoders import RandomBag

QUICK = dataclasses.replace(get_protocol("fast"), kfold=2)


def test_results_carry_what_led_to_them(data: Path) -> None:
    results = evaluate(RandomBag(20), "CR,MRPC,SICK-E", data, QUICK)
    assert list(results) == ["CR", "MRPC", "SICKEntailment"]
    cr = results["CR"]
    assert cr.rows == {"all": 52} and cr.notes == ["CR all: 52 rows, published 3,775"]
    assert len(cr.chosen) == 2 and len(cr.dev_scores) == 2 and len(cr.dev_scores[0]) == 4
    assert cr.gold["all"] == [1] * 26 + [0] * 26  # the file's order, not the sorted one
    accuracy = 100 * np.mean(np.array(cr.predictions["all"]) == cr.gold["all"])
    assert cr["acc"] == pytest.approx(accuracy, abs=1.0)
    mrpc = results["MRPC"]
    hits = np.array(mrpc.predictions["test"]) == mrpc.gold["test"]
    assert mrpc["acc"] == round(100 * hits.mean(), 2)
    assert set(mrpc.data_sha256) == {"msr_paraphrase_train.txt", "msr_paraphrase_test.txt"}


def test_strings_or_token_lists_give_the_same(data: Path) -> None:
    strings: list[str] = []

    class Strings(RandomBag):
        pretokenized = False

        def encode(self, sentences: list[str]) -> np.ndarray:
            strings.extend(sentences)
            return super().encode(sentences)

    a = evaluate(Strings(8), ["CR", "MRPC"], data, QUICK)
    b = evaluate(RandomBag(8), ["CR", "MRPC"], data, QUICK)
    assert "." in strings and len(set(strings)) == len(strings)  # the empty line; each once
    assert a["CR"].metrics == b["CR"].metrics and a["MRPC"].predictions == b["MRPC"].predictions


@pytest.mark.parametrize(
    ("protocol", "rows", "reason"),
    [
        ("default", 11, "class 0 has 11 rows, the folds need 12"),
        ("fast", 7, "11 training rows are too few: 5% of them decide when to stop"),
    ],
)
def test_too_few_rows_are_refused(data: Path, protocol: str, rows: int, reason: str) -> None:
    for end in ("pos", "neg"):
        (data / f"downstream/CR/custrev.{end}").write_text("".join(f"{end} {i}\n" for i in range(rows)))
    assert reason in evaluate(RandomBag(4), ["CR"], data, protocol).skipped["CR"]


@pytest.mark.parametrize("end", ["pos", "neg"])
def test_a_class_without_rows_names_its_file(data: Path, end: str) -> None:
    (data / f"downstream/CR/custrev.{end}").write_text("")
    reason = evaluate(RandomBag(4), ["CR"], data, QUICK).skipped["CR"]
    assert (
        f"class {int(end == 'pos')} has 0 rows" in reason
        and f"is {data}/downstream/CR/custrev.{end}" in reason
    )


def test_snli_equals_the_oracle(data: Path) -> None:
    """Its own row order (s2 before s1, labels by name), features, passes and regulariser."""
    rng = np.random.RandomState(0)
    folder, names = data / "downstream/SNLI", ["entailment", "neutral", "contradiction"]
    folder.mkdir()
    bag, rows = RandomBag(3), {}
    for split in ("train", "dev", "test"):
        rows[split] = []
        for _ in range(90):
            first, second = (list(rng.choice(list("abcdef"), rng.randint(1, 4))) for _ in range(2))
            rows[split].append((first, second, names[(len(first) + rng.randint(2)) % 3]))
        for name, values in zip(("s1", "s2", "labels"), zip(*rows[split], strict=True), strict=True):
            lines = values if name == "labels" else map(" ".join, values)
            (folder / f"{name}.{split}").write_text("".join(f"{line}\n" for line in lines))
    # Steps of two rows at a high rate: another order ends elsewhere.
    protocol = dataclasses.replace(get_protocol("fast"), batch_size=2)
    result = evaluate(bag, ["SNLI"], data, protocol)["SNLI"]

    def original(split: str) -> tuple[np.ndarray, np.ndarray, list[int]]:
        triples = rows[split]
        order = sorted(range(90), key=lambda i: (len(triples[i][1]), len(triples[i][0]), triples[i][2]))
        u, v = (bag.encode([triples[i][side] for i in order]) for side in (0, 1))
        y = [names.index(triples[i][2]) for i in order]
        return np.hstack([u, v, u * v, np.abs(u - v)]), np.array(y), order

    (x, y, _), (x_dev, y_dev, _), (x_test, y_test, order) = map(original, ("train", "dev", "test"))
    passes = Protocol(name="", optim="rmsprop", batch_size=2, tenacity=3, epoch_size=1, max_epoch=15)
    classifier = oracle.classifier(x, y, 3, 1e-9, 1111, passes)
    assert result["devacc"] == round(100 * classifier.fit(x, y, dev=(x_dev, y_dev)), 2)
    assert result["acc"] == round(100 * classifier.score(x_test, y_test), 2)
    assert [result.predictions["test"][i] for i in order] == classifier.predict(x_test).tolist()
    assert [result.gold["test"][i] for i in order] == y_test.tolist()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda s: np.full((len(s), 8), np.nan), "NaN or infinity"),
        (lambda s: np.zeros((len(s), 9)), r"expected numbers [sentences, 8]"),
    ],
)
def test_bad_vectors_are_named_and_other_tasks_finish(data: Path, output, message: str) -> None:
    class Bad(RandomBag):
        def encode(self, sentences):
            sick = any("tall" in sentence for sentence in sentences)  # a word of the third class
            return output(sentences) if sick else super().encode(sentences)

    results = evaluate(Bad(8), ["CR", "SICK-E", "MRPC"], data, QUICK)
    assert message in results.skipped["SICKEntailment"]
    assert "CR" in results.tasks


def test_what_cannot_be_scored_at_all_raises_and_a_function_may_give_lists(data: Path) -> None:
    class Flat:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.zeros(len(sentences))

    with pytest.raises(EncoderError, match="expected numbers"):
        evaluate(Flat(), ["MR", "CR"], data, QUICK)  # MR has no files here
    for wrong in (lambda rows: np.full((len(rows), 4), np.nan), lambda rows: np.zeros((len(rows) - 1, 4))):
        with pytest.raises(EncoderError, match="encode\\(\\) returned"):
            evaluate(wrong, ["CR"], data, QUICK)
    bag = RandomBag(4)
    lists = evaluate(lambda rows: bag.encode([" ".join(row) for row in rows]).tolist(), ["CR"], data, QUICK)
    assert lists["CR"].metrics == evaluate(bag, ["CR"], data, QUICK)["CR"].metrics
    with pytest.raises(UserError, match=r"3 is no encoder: give an object with encode\(sentences\)"):
        evaluate(3, ["CR"], data, QUICK)
    with pytest.raises(UserError, match="unknown protocol"):
        evaluate(RandomBag(8), ["MR"], data, "slow")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"encoder": "builtin"}, "a str .* is no encoder"),
        ({"encoder": RandomBag}, "a type .* is no encoder"),
        ({"tasks": None}, "no list of tasks"),
        ({"tasks": [3]}, "3 is no name of a task"),
        ({"data": None}, "data: a NoneType is no path"),
        ({"trees": 3}, "trees: a int is no path"),
        ({"protocol": None}, "protocol None is no name"),
        ({"seed": -1}, "seed=-1: must be a whole number from 0 to 4294967295"),
        ({"seed": 1.5}, "seed=1.5"),
        ({"nhid": 1.5}, "nhid=1.5"),
    ],
)
def test_an_argument_of_another_type_is_named(data: Path, arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        evaluate(**{"encoder": RandomBag(8), "tasks": "MR", "data": data, "protocol": QUICK, **arguments})


def test_a_protocol_is_checked() -> None:
    for values, fault in (
        ({"kfold": 1}, "kfold=1"),
        ({"optim": "sgd"}, "optim"),
        ({"backend": "x"}, "backend"),
    ):
        with pytest.raises(UserError, match=fault):
            Protocol(**{"name": "own", **values})
    assert type(Protocol(name="own", batch_size=np.int64(8)).batch_size) is int  # type: ignore[arg-type]


def test_a_seed_may_be_a_number_of_numpy(data: Path) -> None:
    assert json.dumps(evaluate(RandomBag(8), "CR", data, QUICK, np.int64(3)).rows())  # type: ignore[arg-type]


def test_vectors_whose_products_are_too_large_are_refused(data: Path) -> None:
    class Large(RandomBag):
        def encode(self, sentences):
            return np.float32(1e25) * super().encode(sentences)

    reason = evaluate(Large(8), "MR,MRPC", data, QUICK).skipped["MRPC"]
    assert "too large to be multiplied in float32" in reason


@pytest.mark.parametrize("scale", [1e-40, 1e-25, 1e25])
def test_cosines_of_small_and_large_vectors_are_those_of_their_directions(scale: float) -> None:
    u, v = np.random.default_rng(0).standard_normal((2, 5, 8), np.float32)
    expected = np.einsum("nd,nd->n", u, v) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    np.testing.assert_allclose(cosines(u * np.float32(scale), v), expected, atol=1e-3)
    np.testing.assert_array_equal(cosines(u * np.float32(2**60), v), cosines(u, v))


def test_cosine_of_zero_vectors_is_zero() -> None:
    u = np.array([[1, 0], [0, 0], [np.nan, 1]], dtype=np.float32)
    v = np.array([[2, 0], [1, 1], [0, 1]], dtype=np.float32)
    np.testing.assert_allclose(cosines(u, v), [1, 0, 1])


def correlation_by_hand(rows: list[tuple[str, str, float]], correlation=stats.spearmanr) -> float:
    """Of the cosines of pairs, one at a time, with the gold scores."""
    cosines_by_hand = []
    for pair in rows:
        u, v = RandomBag(30).encode(list(pair[:2])).astype(float)
        cosines_by_hand.append(u @ v / np.sqrt((u @ u) * (v @ v)))
    return 100 * float(correlation(cosines_by_hand, [y for *_, y in rows]).statistic)


def test_every_name_of_similarity_is_what_it_says(data: Path) -> None:
    """Over all pairs, mean of subsets (of other sizes and ranges of scores), without training, trained."""
    rng = random.Random(0)
    subsets = []
    for place, subset in enumerate(TASKS["STS13"].files):
        rows = [
            (text(rng, i % 3), text(rng, i % 2), round(rng.uniform(place, place + 2), 2))
            for i in range(8 + 9 * place)
        ]
        write_sts(data, "STS13", subset, rows)
        subsets.append(rows)
    tasks = evaluate(RandomBag(30), "STS13,SICK-R", data, "fast").tasks
    scores = {task: result.metrics for task, result in tasks.items()}
    columns = columns_of_mean([scores])
    assert columns == ["STS13 all", "SICK-R (cosine)"]
    row = similarity_row(scores, columns)
    over_all_pairs = correlation_by_hand([pair for rows in subsets for pair in rows])
    assert row["STS13 all"] == pytest.approx(over_all_pairs, abs=1e-6)
    for kind, correlation in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
        values = [correlation_by_hand(rows, correlation) for rows in subsets]
        mean, weighted_mean = np.mean(values), np.average(values, weights=list(map(len, subsets)))
        assert 100 * scores["STS13"][f"all.{kind}.mean"] == pytest.approx(mean, abs=1e-4)
        assert 100 * scores["STS13"][f"all.{kind}.wmean"] == pytest.approx(weighted_mean, abs=1e-4)
    lines = (data / "downstream/SICK/SICK_test_annotated.txt").read_text().splitlines()[1:]
    sick = [(a, b, float(y)) for _, a, b, y, _ in (line.split("\t") for line in lines)]
    assert row["SICK-R (cosine)"] == pytest.approx(correlation_by_hand(sick), abs=1e-6)
    assert abs(row["SICK-R (cosine)"] - 100 * scores["SICKRelatedness"]["spearman"]) > 1e-3
    assert row["STS average"] == pytest.approx((row["STS13 all"] + row["SICK-R (cosine)"]) / 2)
    assert name_of_mean([*similarity_columns()]) == "STS-7"


def test_classifiers_get_features_and_cosines_meaning(data: Path, tmp_path: Path) -> None:
    """By folder, by ``?kind=``, joined, as an object, and behind MTEB's interface."""
    model = MultiViewEncoder.untrained("seq", dim=4, word_dim=6, device="cpu")
    model.save(tmp_path / "plain")
    model.network.readout = Readout(torch.randn(3, 4), torch.randn(3), "chance")
    model.save(tmp_path / "m")
    name, cache = str(tmp_path / "m"), tmp_path / "cache"

    def results_of(spec: str) -> Results:
        return evaluate(open_model(spec, cache=cache, device="cpu"), "CR,SICK-R", data, QUICK)

    by_task, features, meaning = (
        results_of(name + option) for option in ("", "?kind=features", "?kind=meaning")
    )
    assert [results["CR"].dim for results in (by_task, features, meaning)] == [4, 4, 3]
    assert results_of(f"{name}+{name}")["CR"].dim == 8
    labels = [results["SICKRelatedness"].vector_label for results in (by_task, features, meaning)]
    assert labels == ["features, meaning (cosine)", "features", "meaning"]
    assert by_task["CR"].vector_label == "features" and by_task["CR"].metrics == features["CR"].metrics
    of_task, of_features, of_meaning = (
        results["SICKRelatedness"].metrics for results in (by_task, features, meaning)
    )
    assert of_task["pearson"] == of_features["pearson"] != of_meaning["pearson"]
    assert of_task["cosine.spearman"] == of_meaning["cosine.spearman"] != of_features["cosine.spearman"]
    assert len(list(cache.iterdir())) == 3  # the features of both names are encoded once
    assert evaluate(model, "SICK-R", data, QUICK)["SICKRelatedness"].vector_label == labels[0]
    for encoder in (open_model(name), model):
        np.testing.assert_allclose(
            MtebEncoder(encoder, "m").encode([{"text": ["a cat"]}]), model.encode(["a cat"])
        )
    with pytest.raises(UserError, match=r"kind=raw\|features"):
        open_model(f"{name}?kind=wide")
    with pytest.raises(EncoderError, match="never fitted"):
        results_of(f"{tmp_path / 'plain'}?kind=meaning")
    encoder = encoder_of(f"{name}?structure=0.3")
    labels = (encoder.label(), encoder.label("features"))
    assert labels == ("meaning, structure 0.3", "features, structure 0.3")
