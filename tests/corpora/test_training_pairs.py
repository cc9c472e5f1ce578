"""Pairs to learn from: every form and format, the share that is held out, and rows that cannot be used."""

import json
from pathlib import Path

import pytest

from corpora.training_pairs import Example, PairSet, connected_groups, read_training_pairs, text_key
from runtime.errors import UserError


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_three_formats_give_the_same_examples(tmp_path: Path) -> None:
    tsv = write(
        tmp_path / "a.tsv",
        "id\tanchor\tpositive\tnegative_1\tnegative_2",
        '1\tHe said "no".\t"He ""declined"", twice."\tHe agreed.\t',
        "",
        "2\tA, b\tB, a\t\tC",
    )
    csv = write(
        tmp_path / "a.csv",
        "id,anchor,positive,negative_1,negative_2",
        '1,"He said ""no"".","He ""declined"", twice.",He agreed.,',
        '2,"A, b","B, a",,C',
    )
    rows = [
        {"anchor": 'He said "no".', "positive": 'He "declined", twice.', "negative": "He agreed."},
        {"positive": "B, a", "anchor": "A, b", "negative": None, "negative_2": "C", "more": 3},
    ]
    jsonl = write(tmp_path / "a.jsonl", *map(json.dumps, rows))
    expected = [
        Example(('He said "no".', 'He "declined", twice.', "He agreed.")),
        Example(("A, b", "B, a", "C")),
    ]
    for path in (tsv, csv, jsonl):
        assert read_training_pairs([path]).examples == expected, path
    both = read_training_pairs([tsv, jsonl])
    assert len(both) == 4 and not both.is_graded and both.names == [str(tsv), str(jsonl)]
    assert both.sentences()[:3] == list(expected[0].sentences)
    assert both.sha256 != read_training_pairs([jsonl, tsv]).sha256


def test_grades_by_either_name(tmp_path: Path) -> None:
    scores = write(tmp_path / "s.tsv", "sentence1\tsentence2\tscore", "a\tb\t4.5", "a\tc\t0")
    labels = write(tmp_path / "l.jsonl", '{"sentence1": "a", "sentence2": "b", "label": 1}', *[
        '{"sentence1": "c", "sentence2": "d", "label": 0}'
    ])  # fmt: skip
    pairs = read_training_pairs([scores, labels])
    assert pairs.is_graded and [example.grade for example in pairs.examples] == [4.5, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("x.tsv", ["anchor\tpositive"], "x.tsv: holds no rows"),
        ("x.tsv", [], "x.tsv: holds no rows"),
        ("x.tsv", ["a\tb", "c\td"], "x.tsv:2: columns a, b; needs anchor, positive"),
        ("x.tsv", ["sentence1\tsentence2", "c\td"], "x.tsv:2: columns sentence1, sentence2; needs"),
        ("x.tsv", ["anchor\tpositive", "c"], "x.tsv:2: expected 2 cells as in the header, found 'c'"),
        ("x.tsv", ["anchor\tpositive", "c\t "], "x.tsv:2: expected a sentence in column positive"),
        ("x.csv", ["anchor,positive", 'c,"d'], "x.csv:2: cannot be read as CSV"),
        ("x.jsonl", ["[1]"], "x.jsonl:1: expected a JSON object"),
        ("x.jsonl", ["{"], "x.jsonl:1: "),
        ("x.jsonl", ['{"anchor": "a", "positive": ["b"]}'], "x.jsonl:1: expected a sentence in column"),
        ("x.jsonl", ['{"sentence1": "a", "sentence2": "b", "label": "neutral"}'], "a number in column label"),
        ("x.jsonl", ['{"sentence1": "a", "sentence2": "b", "label": true}'], "a number in column label"),
        ("x.tsv", ["sentence1\tsentence2\tscore", "c\td\tnan"], "a number in column score, found 'nan'"),
        ("x.tsv", ["sentence1\tsentence2\tscore", "c\td\t1", "e\tf\t1"], "every row has the grade 1; at"),
        ("x.tsv", ["anchor\tpositive\tpositive", "a\tb\tc"], "x.tsv:1: two columns are called positive"),
        ("x.csv", ["anchor,query,positive", "a,b,c"], "x.csv:2: columns anchor, query, positive: some mean"),
        ("x.jsonl", ['{"query": "a", "relevant": "b", "answer": "c"}'], "some mean the same"),
        ("x.tsv", ["sentence1\tsentence2\tscore\tlabel", "a\tb\t1\t0"], "some mean the same"),
        ("x.tsv", ["query\tanswer\tsentence1\tsentence2\tscore", "a\tb\tc\td\t1"], "some mean the same"),
        ("x.tsv", ["anchor\tpositive", "a\tb", "c\tc"], "x.tsv:3: expected two different sentences"),
        ("x.tsv", ["anchor\tpositive", "\u200b\tb"], "x.tsv:2: expected a sentence in column anchor"),
        ("x.jsonl", [f'{{"sentence1": "a", "sentence2": "b", "score": {n}}}' for n in (1, 2)]
         + ['{"anchor": "a", "positive": "b"}'], "x.jsonl:3: has other columns than the first row of"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(tmp_path: Path, name: str, lines: list[str], message: str) -> None:
    with pytest.raises(UserError) as error:
        read_training_pairs([write(tmp_path / name, *lines)])
    assert message in str(error.value)


def test_files_of_two_forms_are_refused(tmp_path: Path) -> None:
    first = write(tmp_path / "a.tsv", "anchor\tpositive", "a\tb")
    second = write(tmp_path / "b.tsv", "sentence1\tsentence2\tscore", "a\tb\t1", "a\tc\t2")
    with pytest.raises(UserError, match=r"b\.tsv:2: has other columns than .*a\.tsv"):
        read_training_pairs([first, second])


def test_no_sentence_of_a_training_pair_is_held_out() -> None:
    rows = [(f"a{n // 3}", f"b{n}", f"c{n // 5}") for n in range(300)]
    rows[7] = ("A2 ", "B\u00ad7", "c1")  # the same sentences, written otherwise
    pairs = PairSet([Example(row) for row in rows], ["x"])
    training, held_out = pairs.split(0.2)
    assert len(training) + len(held_out) == 300 and 30 <= len(held_out) <= 60
    assert not set(map(text_key, training.sentences())) & set(map(text_key, held_out.sentences()))
    assert training.examples == [each for each in pairs.examples if each not in held_out.examples]
    assert pairs.split(0.2)[1].examples == held_out.examples != pairs.split(0.2, seed=1)[1].examples
    chained = PairSet([Example((f"a{n}", f"a{n + 1}")) for n in range(50)], ["x"])
    with pytest.raises(UserError, match=r"x: 50 of 50 rows hang together .* give --validation FILE"):
        chained.split(0.1)


def test_pairs_without_those_of_a_validation_file() -> None:
    pairs = PairSet([Example(("a", "b")), Example(("c", "d", "E  f")), Example(("g", "h"))], ["x"])
    kept = pairs.without(PairSet([Example(("e f", "z")), Example(("B", "y"))], ["y"]))
    assert [each.sentences for each in kept.examples] == [("g", "h")]
    with pytest.raises(UserError, match="x: every row has a sentence of x"):
        pairs.without(pairs)


def test_sentences_are_connected_through_others() -> None:
    groups = connected_groups([("a", "b"), ("c", "d"), ("B ", "e"), ("f", "f")])
    assert groups["a"] == groups["b"] == groups["e"] and groups["c"] == groups["d"]
    assert len(set(groups.values())) == 3
