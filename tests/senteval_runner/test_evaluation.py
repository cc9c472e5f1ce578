"""evaluate(): order, contract, bad data; on small synthetic task files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.support.errors import UserError
from senteval_runner import EncoderError, evaluate
from senteval_runner.evaluation import summarise
from senteval_runner.protocol.config import Protocol, get_protocol
from senteval_runner.protocol.correlation import _gradient, cosines, target_distribution
from tests.oracles import senteval as oracle
from tests.senteval_runner.encoders import RandomBag

QUICK = dataclasses.replace(get_protocol("fast"), kfold=2)
TASKS = ["CR", "MRPC", "SICK-E", "SICK-R", "WordContent"]


def test_results_carry_what_led_to_them(data: Path) -> None:
    results = evaluate(RandomBag(20), TASKS, data, QUICK)
    assert list(results) == ["CR", "MRPC", "SICKEntailment", "SICKRelatedness", "WordContent"]
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
    trained, untrained = {"devpearson", "pearson", "spearman", "mse"}, {"cosine.pearson", "cosine.spearman"}
    assert set(results["SICKRelatedness"].metrics) == trained | untrained


def test_strings_or_token_lists_give_the_same(data: Path) -> None:
    class Strings:
        def __init__(self) -> None:
            self.bag = RandomBag(8)
            self.seen: set[str] = set()

        def encode(self, sentences: list[str]) -> np.ndarray:
            assert all(isinstance(s, str) and s for s in sentences)
            assert not self.seen & set(sentences)  # every distinct sentence once
            self.seen |= set(sentences)
            return self.bag.encode([s.split() for s in sentences])

    strings = Strings()
    a = evaluate(strings, ["CR", "MRPC"], data, QUICK)
    b = evaluate(RandomBag(8), ["CR", "MRPC"], data, QUICK)
    assert "." in strings.seen  # the empty line
    assert a["CR"].metrics == b["CR"].metrics and a["MRPC"].predictions == b["MRPC"].predictions
    function = evaluate(lambda rows: RandomBag(8).encode([r or ["."] for r in rows]), ["CR"], data, QUICK)
    assert function["CR"].predictions == a["CR"].predictions


@pytest.mark.parametrize(
    ("protocol", "rows", "reason"),
    [
        ("default", 11, "class 0 has 11 rows, the folds need 12"),
        ("fast", 6, "class 0 has 6 rows, the folds need 7"),
        ("fast", 7, "11 training rows are too few: 5% of them decide when to stop"),
    ],
)
def test_too_few_rows_are_refused(data: Path, protocol: str, rows: int, reason: str) -> None:
    for end in ("pos", "neg"):
        (data / f"downstream/CR/custrev.{end}").write_text("".join(f"{end} {i}\n" for i in range(rows)))
    assert reason in evaluate(RandomBag(4), ["CR"], data, protocol).skipped["CR"]


def test_snli_equals_the_oracle(data: Path) -> None:
    """Its own row order (s2 before s1, labels by name), features, passes and regulariser."""
    rng = np.random.RandomState(0)
    folder, names = data / "downstream/SNLI", ["entailment", "neutral", "contradiction"]
    folder.mkdir()
    bag, rows = RandomBag(3), {}
    for split in ("train", "dev", "test"):
        found = rows[split] = []
        for _ in range(90):
            one, other = (list(rng.choice(list("abcdef"), rng.randint(1, 4))) for _ in range(2))
            found.append(
                (one, other, ("entailment", "neutral", "contradiction")[(len(one) + rng.randint(2)) % 3])
            )
        for name, lines in zip(("s1", "s2", "labels"), zip(*found, strict=True), strict=True):
            text = "".join(f"{line if name == 'labels' else ' '.join(line)}\n" for line in lines)
            (folder / f"{name}.{split}").write_text(text)
    # Steps of two rows at a high rate: another order ends elsewhere.
    protocol = dataclasses.replace(get_protocol("fast"), batch_size=2)
    result = evaluate(bag, ["SNLI"], data, protocol)["SNLI"]

    def original(split: str) -> tuple[np.ndarray, np.ndarray, list[int]]:
        order = sorted(
            range(90), key=lambda i: (len(rows[split][i][1]), len(rows[split][i][0]), rows[split][i][2])
        )
        u, v = (bag.encode([rows[split][i][side] for i in order]) for side in (0, 1))
        y = [names.index(rows[split][i][2]) for i in order]
        return np.hstack([u, v, u * v, np.abs(u - v)]), np.array(y), order

    (x, y, _), (x_dev, y_dev, _), (x_test, y_test, order) = map(original, ("train", "dev", "test"))
    passes = oracle.Settings(optim="rmsprop", batch_size=2, tenacity=3, epoch_size=1, max_epoch=15)
    plain = oracle.classifier(x, y, 3, 1e-9, 1111, passes)
    assert result["devacc"] == round(100 * plain.fit(x, y, dev=(x_dev, y_dev)), 2)
    assert result["acc"] == round(100 * plain.score(x_test, y_test), 2)
    assert [result.predictions["test"][i] for i in order] == plain.predict(x_test).tolist()
    assert [result.gold["test"][i] for i in order] == y_test.tolist()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (lambda s: np.full((len(s), 8), np.nan), "NaN or infinity"),
        (lambda s: np.zeros((len(s) - 1, 4)), "expected numbers"),
        (lambda s: np.zeros(len(s)), "expected numbers"),
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


def test_an_encoder_that_never_works_raises_its_own_fault(data: Path) -> None:
    class Broken:
        def encode(self, sentences: list[str]) -> np.ndarray:
            raise KeyError("no such word")

    class Flat:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.zeros(len(sentences))

    with pytest.raises(KeyError, match="no such word"):
        evaluate(Broken(), ["CR"], data, QUICK)
    with pytest.raises(EncoderError, match="expected numbers"):
        evaluate(Flat(), ["MR", "CR"], data, QUICK)  # MR has no files here
    with pytest.raises(UserError, match=r"3 is no encoder: give an object with encode\(sentences\)"):
        evaluate(3, ["CR"], data, QUICK)


def test_unknown_names_are_refused(data: Path) -> None:
    with pytest.raises(UserError, match="unknown task"):
        evaluate(RandomBag(8), ["MRX"], data)
    with pytest.raises(UserError, match="unknown protocol"):
        evaluate(RandomBag(8), ["MR"], data, "slow")
    with pytest.raises(UserError, match="hidden layer"):
        Protocol(name="x", backend="sklearn", nhid=5)


def test_target_distribution_against_the_formula() -> None:
    scores = np.array([0.0, 0.4, 1.0, 2.25, 4.9, 5.0])
    expected = np.zeros((6, 5))
    for row, y in enumerate(scores):
        i = int(np.floor(y))
        for c, weight in ((i + 1, y - i), (i, i + 1 - y)):
            if 1 <= c <= 5:
                expected[row, c - 1] = weight
    np.testing.assert_allclose(target_distribution(scores), expected, rtol=1e-6)


def test_cosine_of_zero_vectors_is_zero() -> None:
    u = np.array([[1, 0], [0, 0], [np.nan, 1]], dtype=np.float32)
    v = np.array([[2, 0], [1, 1], [0, 1]], dtype=np.float32)
    np.testing.assert_allclose(cosines(u, v), [1, 0, 1])


def test_sts_summaries_are_kept_apart() -> None:
    rng = np.random.RandomState(0)
    gold = {"a": rng.rand(30), "b": rng.rand(10) + 3}
    predicted = {k: v + 0.3 * rng.rand(len(v)) for k, v in gold.items()}
    m = summarise(predicted, gold)
    assert m["all.pearson.mean"] == pytest.approx((m["a.pearson"] + m["b.pearson"]) / 2)
    assert m["all.pearson.wmean"] == pytest.approx((30 * m["a.pearson"] + 10 * m["b.pearson"]) / 40)
    assert m["concatenated.pearson"] > m["all.pearson.mean"]
    values = np.arange(10.0)  # a monotone curve: ranks agree entirely, values do not
    curve = summarise({"a": values**4}, {"a": values})
    assert curve["a.spearman"] == pytest.approx(1) and curve["a.pearson"] < 0.95


def test_relatedness_gradient_equals_autograd() -> None:
    generator = torch.Generator().manual_seed(0)
    x_BD, w_KD = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((7, 3), (5, 3)))
    target_KB = torch.rand(5, 7, generator=generator, dtype=torch.float64)
    w_KD.requires_grad_()
    (torch.softmax(w_KD @ x_BD.T, dim=0) - target_KB).square().mean().backward()
    assert w_KD.grad is not None
    torch.testing.assert_close(_gradient(x_BD, target_KB, w_KD.detach()), w_KD.grad)
