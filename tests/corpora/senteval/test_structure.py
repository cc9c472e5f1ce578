"""The tasks of structure are read as they are published, and Binding's parts share nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from corpora.senteval.files import read_task
from corpora.senteval.structure import read_pairs, triplets
from runtime.errors import UserError

FUNCTION = (
    "a an after and as before been but by did for from is it "
    "not of on s than that the to was we were who whom at "
    "does every had has in last never there they while why"
)


def test_test_and_development_share_no_frame_and_no_content_word() -> None:
    parts = [triplets("development"), triplets("test"), triplets("new")]
    words = [
        {w.lower() for t in part for s in (t.anchor, t.same, t.other) for w in re.findall("[A-Za-z]+", s)}
        for part in parts
    ]
    assert all(words[a] & words[b] <= {*FUNCTION.split()} for a, b in ((0, 1), (0, 2), (1, 2)))
    assert all(len({t.kind for t in part}) == 12 for part in parts)
    assert triplets("test") == triplets("test") and len(parts[1]) == 61 * 20


def test_binding_needs_no_data(tmp_path: Path) -> None:
    task = read_task("binding", tmp_path)
    passive = task.splits["passive"]
    assert passive.y[:4] == [1, 0, 1, 0] and passive.a[0] == passive.a[1] and len(passive) % 40 == 0
    assert sum(map(len, task.splits.values())) == 2 * 61 * 20


@pytest.mark.parametrize(
    ("task", "name", "text", "pairs"),
    [
        (
            "HANS",
            "hans.txt",
            "gold_label\tsentence1\tsentence2\theuristic\n"
            "entailment\tA b .\tb A .\tlexical_overlap\nx\ty\tz\tsubsequence\n",
            [(True, "A b .", "b A .")],
        ),
        (
            "PAWS",
            "paws.tsv",
            "id\tsentence1\tsentence2\tlabel\n1\t`` A '' b\tB a\t0\n",
            [(False, '" A " b', "B a")],
        ),
        (
            "MinimalPairs",
            "nli.tsv",
            "label\tsentence1\tsentence2\nneutral\tA dog bites a man.\tA man is bitten by a dog.\n"
            "neutral\tA dog bites a man.\tA man bites the dog.\nentailment\tA dog bites.\ta dog bites\n",
            [(False, "A dog bites a man.", "A man bites the dog.")],
        ),
        (
            "SemAntoNeg",
            "anto.tsv",
            "id\tinput\tnot_antonym\tno_not\tparaphrase\n1\tNot hot\tNot cold\tHot\tCold\n",
            [(True, "Not hot", "Cold"), (False, "Not hot", "Not cold"), (False, "Not hot", "Hot")],
        ),
        (
            "SugarCrepe++",
            "captions.tsv",
            "id\tcaption\tcaption2\tnegative\n0\tA\tB\tC\n",
            [(True, "A", "B"), (False, "A", "C"), (False, "B", "C")],
        ),
        ("Opposites", "cannot.tsv", "sentence\tnegated\nYes\tNo\n", [(False, "Yes", "No")]),
        (
            "Opposites",
            "paws.tsv",
            "id\tsentence1\tsentence2\tlabel\n1\tA\tB\t0\n2\tC\tD\t1\n",
            [(True, "C", "D")],
        ),
        (
            "MinimalPairs",
            "SICK_test.txt",
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
            "1\tA boy is kicking the ball\tThe ball is kicked by a boy\t4.5\tENTAILMENT\n",
            [(True, "A boy is kicking the ball", "The ball is kicked by a boy")],
        ),
    ],
)
def test_readers(tmp_path: Path, task: str, name: str, text: str, pairs: list) -> None:
    (tmp_path / name).write_text(text)
    assert list(read_pairs(task, tmp_path / name)) == pairs
    (tmp_path / name).write_text("a\tb\n1\t2\n")
    with pytest.raises(UserError, match=f"{name}:1: no column"):
        list(read_pairs(task, tmp_path / name))


@pytest.mark.parametrize("label", ["0", "1"])
def test_pairs_of_one_kind_are_no_task(tmp_path: Path, label: str) -> None:
    path = tmp_path / "structure" / "paws_wiki_dev.tsv"
    path.parent.mkdir()
    path.write_text(f"id\tsentence1\tsentence2\tlabel\n1\tA\tB\t{label}\n")
    with pytest.raises(UserError, match=r"paws_wiki_dev.tsv: no pairs for PAWS"):
        read_task("PAWS", tmp_path)


@pytest.mark.data
def test_the_sets_at_hand_have_the_published_numbers(data_folder: Path) -> None:
    paws = read_task("PAWS", data_folder).splits["all"]
    assert len(paws) == 8000 and round(100 * sum(paws.y) / 8000, 1) == 44.2
    minimal = read_task("MinimalPairs", data_folder).splits
    assert {name: (len(part), sum(part.y)) for name, part in minimal.items()} == {
        "SICK": (241, 223),
        "SNLI": (44, 42),
        "CAD": (32, 31),
    }
