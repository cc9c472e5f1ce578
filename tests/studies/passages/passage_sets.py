"""Small data sets of made-up text in the published formats."""

import gzip
import json
import random
from pathlib import Path

PAPER = ("wikipassageqa", "insuranceqa", "quasar-t", "searchqa")
ANIMALS = ("dog", "cat", "horse", "bird", "cow", "goat", "duck", "pig", "hen", "fox")
HOMES = ("kennel", "basket", "stable", "nest", "byre", "pen", "pond", "sty", "coop", "den")


def qa_rows(count: int, seed: int, prefix: str) -> list[str]:
    """Questions that name an animal; the relevant candidate names its home, not the animal."""
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        k = rng.randrange(len(ANIMALS))
        others = rng.sample([j for j in range(len(HOMES)) if j != k], 4)
        place = rng.randrange(5)
        for n in range(5):
            home = HOMES[k] if n == place else HOMES[others.pop()]
            question = f"where does the {ANIMALS[k]} sleep number {i} ?"
            rows.append(f"{prefix}{i}\t{int(n == place)}\t{question}\tit sleeps in a {home} near place {i} .")
    return rows


TEXTS = [text for row in qa_rows(60, 1, "q") for text in row.split("\t")[2:]]
"""What the questions and passages say."""


def write_wikiqa(folder: Path, sizes: tuple[int, int, int] = (60, 20, 20)) -> Path:
    folder.mkdir(parents=True)
    for split, size, seed in zip(("train", "dev", "test"), sizes, (1, 2, 3), strict=True):
        rows = ["question_id\tlabel\tquestion\tcandidate", *qa_rows(size, seed, split)]
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def write_wikipassageqa(folder: Path) -> Path:
    folder.mkdir(parents=True)
    documents = {"12": {"0": "First part.", "1": "Second part.", "2": "Third part."}, "7": {"0": "Only one."}}
    (folder / "document_passages.json").write_text(json.dumps(documents), encoding="utf-8")
    header = "QID\tQuestion\tDocumentID\tDocumentName\tRelevantPassages"
    for split in ("train", "dev", "test"):
        rows = [header, "1\tWhich come first?\t12\tParts.html\t0,2", "2\tHow many?\t7\tOne.html\t0"]
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def write_insuranceqa(folder: Path) -> Path:
    folder.mkdir(parents=True)
    words = ["what", "is", "it", "a", "policy", "premium", "no", "yes"]
    files = {
        "vocabulary": [f"idx_{i}\t{word}" for i, word in enumerate(words, start=1)],
        "answers.label.token_idx": ["1\tidx_4 idx_5", "2\tidx_4 idx_6", "3\tidx_7", "4\tidx_8"],
        "question.train.token_idx.label": ["idx_1 idx_2 idx_3\t1 2", "idx_2 idx_3\t4"],
        "question.dev.label.token_idx.pool": ["1\tidx_1 idx_2\t3 1 2"],
        "question.test1.label.token_idx.pool": ["1 4\tidx_1 idx_2\t3 1 2"],
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_quasar(folder: Path) -> Path:
    (folder / "questions").mkdir(parents=True)
    (folder / "contexts" / "short").mkdir(parents=True)
    for split in ("train", "dev", "test"):
        questions = [
            {"uid": "t1", "question": "What barks ?", "answer": "the dog"},
            {"uid": "t2", "question": "What mews ?", "answer": "a cat"},
        ]
        contexts = [
            {"uid": "t1", "contexts": [[0.9, "The Dog barks."], [0.5, "The dogs bark."], [0.1, "A cow."]]},
            {"uid": "t2", "contexts": [[0.9, "It is a cat."], [0.8, "It is a cat."], [0.7, "A fox."]]},
        ]
        for place, kind, rows in (("", "questions", questions), ("short", "contexts", contexts)):
            text = "".join(json.dumps(row) + "\n" for row in rows).encode()
            (folder / kind / place / f"{split}_{kind}.json.gz").write_bytes(gzip.compress(text))
    return folder


def search_object(number: int) -> dict:
    results = [
        {"title": "t", "url": "u", "snippet": snippet}
        for snippet in (f"They say the {ANIMALS[number]} wins.", "Nothing here.", None)
    ]
    question = f"'Who wins <a href='x'>race {number}</a>?'"
    return {"id": number, "question": question, "answer": ANIMALS[number], "search_results": results}


def write_searchqa(folder: Path) -> Path:
    for number in range(9):
        place = folder / ("train", "val", "test")[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:06d}-tag.json").write_text(json.dumps(search_object(number)), encoding="utf-8")
    return folder
