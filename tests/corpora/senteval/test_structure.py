"""The tasks of structure are read as they are published, and Binding's parts share nothing."""

import re
from pathlib import Path

import pytest

from corpora.senteval.files import read_task
from corpora.senteval.structure import task_pairs, triplets
from runtime.errors import UserError

FUNCTION = (
    "a an after and as before been but by did for from is it "
    "not of on s than that the to was we were who whom at "
    "does every had has in last never there they while why"
)


def test_test_and_development_share_no_frame_and_no_content_word() -> None:
    parts = [triplets("development"), triplets("test"), triplets("new")]
    words = [
        {
            w.lower()
            for t in part
            for s in (t.anchor, t.paraphrase, t.distractor)
            for w in re.findall("[A-Za-z]+", s)
        }
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


NLI = """label	sentence1	sentence2
neutral	A dog bites a man.	A man is bitten by a dog.
neutral	A dog bites a man.	A man bites the dog.
entailment	A dog bites.	a dog bites
"""
SICK = """pair_ID	sentence_A	sentence_B	relatedness_score	entailment_judgment
1	Boys kick it	It is kicked by boys	4.5	ENTAILMENT
"""
HANS = """gold_label	sentence1	sentence2	heuristic
entailment	A b .	b A .	lexical_overlap
x	y	z	subsequence
"""
PAWS = "id	sentence1	sentence2	label\n1	`` A '' b	B a	0\n2	C	D	1\n"
ANTONYMS = "id	input	not_antonym	no_not	paraphrase\n1	A	B	C	D\n"
CAPTIONS = "id	caption	caption2	negative\n0	A	B	C\n"


@pytest.mark.parametrize(
    ("task", "name", "text", "pairs"),
    [
        ("HANS", "hans.txt", HANS, [(True, "A b .", "b A .")]),
        ("PAWS", "paws.tsv", PAWS, [(False, '" A " b', "B a"), (True, "C", "D")]),
        ("Opposites", "paws.tsv", PAWS, [(True, "C", "D")]),
        ("Opposites", "cannot.tsv", "sentence	negated\nYes	No\n", [(False, "Yes", "No")]),
        ("MinimalPairs", "nli.tsv", NLI, [(False, "A dog bites a man.", "A man bites the dog.")]),
        ("MinimalPairs", "SICK_test.txt", SICK, [(True, "Boys kick it", "It is kicked by boys")]),
        ("SemAntoNeg", "anto.tsv", ANTONYMS, [(True, "A", "D"), (False, "A", "B"), (False, "A", "C")]),
        ("SugarCrepe++", "captions.tsv", CAPTIONS, [(True, "A", "B"), (False, "A", "C"), (False, "B", "C")]),
    ],
)
def test_readers(tmp_path: Path, task: str, name: str, text: str, pairs: list) -> None:
    (tmp_path / name).write_text(text)
    assert list(task_pairs(task, tmp_path / name)) == pairs
    (tmp_path / name).write_text("a\tb\n1\t2\n")
    with pytest.raises(UserError, match=f"{name}:1: no column"):
        list(task_pairs(task, tmp_path / name))


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
