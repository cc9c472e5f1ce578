"""The tasks of structure, the binding views against loops, and structure beside an encoder."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.support.errors import UserError
from multiview.encoders.binding import WIDTH, OrderView, RolesView, projections
from multiview.model import MultiViewEncoder
from multiview.structure import WithStructure
from senteval_runner.structure.binding import Triplet, triplets
from senteval_runner.structure.tasks import binding_scores, pair_scores, read_hans, read_minimal, read_paws

FUNCTION = (
    "a an after and as before been but by did for from is it not of on s than that the to was we were who"
)
ACTIVE, PASSIVE, EXCHANGED = (
    "The lawyer praised the doctor.",
    "The doctor was praised by the lawyer.",
    "The doctor praised the lawyer.",
)


@pytest.fixture(scope="module")
def builtin() -> MultiViewEncoder:
    return MultiViewEncoder.load("builtin", "cpu")


def test_test_and_development_share_no_frame_and_no_content_word() -> None:
    parts = [triplets("development"), triplets("test")]
    words = [
        {
            w.lower()
            for t in part
            for text in (t.anchor, t.same, t.other)
            for w in re.findall("[A-Za-z]+", text)
        }
        for part in parts
    ]
    assert words[0] & words[1] <= {*FUNCTION.split(), "whom"}
    assert all(len({t.kind for t in part}) == 12 for part in parts)
    assert triplets("test") == triplets("test") and len(parts[1]) == 61 * 20


def test_binding_is_strict_and_a_tie_is_wrong() -> None:
    given = [
        Triplet("passive", 0, "a", "b", "c"),
        Triplet("passive", 1, "a", "b", "d"),
        Triplet("x", 2, "a", "a", "c"),
    ]
    vectors = {"a": [1.0, 0], "b": [1.0, 1], "c": [1.0, 1], "d": [0.0, 1]}
    scores = binding_scores(lambda texts: np.array([vectors[text] for text in texts]), given)
    assert scores["passive"] == 50 and scores["x"] == 100 and scores["mean"] == 75
    assert scores["low"] <= 75 <= scores["high"]


def test_pair_scores_equal_a_loop() -> None:
    drawn = np.random.default_rng(0)
    vectors = {str(n): drawn.standard_normal(3) for n in range(40)}
    pairs = [(bool(drawn.integers(2)), str(n), str(n + 20)) for n in range(20)]
    scores = pair_scores(lambda texts: np.array([vectors[t] for t in texts]), pairs)

    def cosine(a: str, b: str) -> float:
        return float(vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b]))

    ranked = sorted(((cosine(a, b), gold) for gold, a, b in pairs), reverse=True)
    positives = [rank for rank, (_, gold) in enumerate(ranked, start=1) if gold]
    ap = np.mean([(place + 1) / rank for place, rank in enumerate(positives)])
    best = max(sum(gold == (rank < k) for rank, (_, gold) in enumerate(ranked)) for k in range(21))
    assert scores["ap"] == pytest.approx(100 * ap) and scores["acc"] == pytest.approx(5 * best)


def test_readers(tmp_path: Path) -> None:
    hans = tmp_path / "hans.txt"
    hans.write_text(
        "gold_label\tsentence1\tsentence2\theuristic\nentailment\tA b .\tb A .\tlexical_overlap\nx\ty\tz\tw\n"
    )
    assert read_hans(hans) == [(True, "A b .", "b A .")]
    paws = tmp_path / "paws.tsv"
    paws.write_text("id\tsentence1\tsentence2\tlabel\n1\t`` A '' b\tB a\t0\n")
    assert read_paws(paws) == [(False, '" A " b', "B a")]
    nli = tmp_path / "nli.tsv"
    nli.write_text(
        "label\tsentence1\tsentence2\nneutral\tA dog bites a man.\tA man bites a dog.\nentailment\tA b\tA c\n"
    )
    assert read_minimal([nli]) == [(False, "A dog bites a man.", "A man bites a dog.")]
    with pytest.raises(UserError, match="no column gold_label"):
        read_hans(paws)
    with pytest.raises(UserError, match="no such file"):
        read_paws(tmp_path / "absent")


@pytest.mark.parametrize("view", [RolesView, OrderView])
def test_a_view_equals_its_equation(builtin: MultiViewEncoder, view: type[RolesView]) -> None:
    sentences = [(*text[:-1].split(), ".") for text in (ACTIVE, PASSIVE, "Rain .", EXCHANGED)]
    batch = builtin.reader.parse(sentences, {"dep"})
    assert batch.types is not None
    words = builtin.members[0].network.words
    x_UE = words.rows(0, words.vocabulary.lookup(batch.types)).double()
    encoder = view(x_UE.shape[1], WIDTH)
    plan = encoder.plan(batch)
    found = encoder(x_UE, plan, torch.from_numpy(batch.token.astype(np.int64)))
    a_ES, b_ES, sign_RS = (part.double() for part in projections(x_UE.shape[1], WIDTH))
    unit = [x_UE[t] / x_UE[t].norm() for t in batch.token]
    wanted = torch.zeros(4, WIDTH, dtype=torch.float64)
    for number in range(4):
        for arc in range(plan.arc_offsets[number], plan.arc_offsets[number + 1]):
            head, dependent = unit[plan.head[arc]] @ a_ES, unit[plan.dependent[arc]] @ b_ES
            wanted[number] += sign_RS[plan.role[arc]] * head * dependent
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    assert not found[2].any()  # one word


def test_structure_tells_who_did_what(builtin: MultiViewEncoder) -> None:
    vectors = builtin.encode([ACTIVE, PASSIVE, EXCHANGED], structure=1.0)
    cosines = builtin.similarity(vectors, vectors)
    assert cosines[0, 1] > cosines[0, 2] + 0.2


def test_cosines_mix(builtin: MultiViewEncoder) -> None:
    meaning, structure = builtin.encode([ACTIVE, PASSIVE]), builtin.structure_vectors([ACTIVE, PASSIVE])
    both = builtin.encode([ACTIVE, PASSIVE], structure=0.3)
    wanted = 0.7 * builtin.similarity(meaning, meaning) + 0.3 * builtin.similarity(structure, structure)
    torch.testing.assert_close(builtin.similarity(both, both), wanted, rtol=1e-5, atol=1e-5)
    assert both.shape == (2, meaning.shape[1] + WIDTH)
    assert np.array_equal(builtin.encode([ACTIVE], structure=0.0), builtin.encode([ACTIVE]))
    with pytest.raises(UserError, match="structure=2"):
        builtin.encode([ACTIVE], structure=2)


def test_structure_stands_beside_any_encoder(builtin: MultiViewEncoder) -> None:
    class Counts:
        name = "counts"

        def encode(self, texts: str | list[str]) -> np.ndarray:
            rows = np.array(
                [[len(t), t.count("a") + 1.0] for t in ([texts] if isinstance(texts, str) else texts)]
            )
            return rows[0] if isinstance(texts, str) else rows

        def get_sentence_embedding_dimension(self) -> int:
            return 2

    model = WithStructure(Counts(), 0.5, builtin)
    vectors = model.encode([ACTIVE, EXCHANGED, "Rain."])
    assert vectors.shape == (3, model.get_sentence_embedding_dimension()) and np.isfinite(vectors).all()
    assert model.encode(ACTIVE).shape == (2 + WIDTH,)
    assert model.similarity(vectors, vectors)[0, 1] < 0.9
    assert model.name == "counts"
