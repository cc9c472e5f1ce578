"""The text that the package's encoder learns from: nothing near an evaluation sentence, the same again."""

import lzma
import random

from runtime.files import read_json
from tools.train_encoder import SOURCES, TREEBANKS, cli, select_text

NAMES = ["lawyer", "doctor", "miller", "gardener", "clerk", "widow", "sailor", "judge", "nurse"]
STORY = """The {0} who praised the {1} left the {2} early, like every {3} and {4} there.
She walked along the river, past the mill; nobody but a {0} followed the {1} and {2}.
It rained.
"""
NAMES_OF_THE_EVALUATION = ["clerk", "nurse", "judge", "sailor", "widow"]
EVALUATION_SENTENCE = (
    "the CLERK who praised the nurse left the judge early: like every sailor and widow there"
)
"""With other punctuation it has the same words, and so the same trigrams, as one sentence of the text."""


def test_no_text_is_near_an_evaluation_sentence_and_it_is_the_same_again(tmp_path) -> None:
    data = tmp_path / "data"
    for name in ("senteval", *(f"treebank/{bank}" for bank in TREEBANKS), "corpora", "retrieval/stackfaq"):
        (data / name).mkdir(parents=True)
    (data / "senteval/MR.txt").write_text(f"a film about nothing at all\t{EVALUATION_SENTENCE}\n")
    for name in SOURCES:
        draw = random.Random(name)
        orders = [draw.sample(NAMES, 5) for _ in range(40)]
        orders[20:20] = [NAMES_OF_THE_EVALUATION]
        text = "\n".join(STORY.format(*order) for order in orders)
        (data / "corpora" / f"{name}.txt.xz").write_bytes(lzma.compress(text.encode()))
    for bank in TREEBANKS:
        tree = (
            "# newdoc\n# text = Somebody gave her the key to it.\n1\tSomebody\n# text = She took it away.\n"
        )
        (data / "treebank" / bank / "train.conllu").write_text(tree)
    for name in ("faq", "queries"):
        rows = f"id\tthread\tquestion\n1\t7\tHow do I open a {name} file?\n"
        (data / "retrieval" / "stackfaq" / f"{name}.tsv").write_text(rows)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        select_text(data, [data / "senteval"], tmp_path / folder, 30)
    texts = {name: (tmp_path / "one" / f"{name}.txt").read_text() for name in ("train", "more", "held")}
    text = "".join(texts.values())
    counts = read_json(tmp_path / "one" / "text.json")
    assert counts["removed"] == 3
    assert STORY.splitlines()[0].format(*NAMES_OF_THE_EVALUATION) not in text
    assert "It rained." not in text and texts["train"].count("\n\n") > 5  # too short; blocks
    assert counts["stackfaq"] == counts["ewt"] == counts["gum"] == 2 and counts["wikipedia"]
    assert counts["clauses"] and "She walked along the river\nnobody but a" in text
    sentences = [line for line in text.splitlines() if line]
    sentences_without_neighbours = sum(counts.values()) - counts["removed"] - len(sentences)
    assert 0 <= sentences_without_neighbours <= 4  # blocks of one sentence
    assert {name: (tmp_path / "two" / f"{name}.txt").read_text() for name in texts} == texts


def test_no_data_is_one_line(tmp_path, capsys) -> None:
    assert cli(["--data", str(tmp_path), "--output", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.strip().endswith(f"--data {tmp_path}: has no folder corpora")
