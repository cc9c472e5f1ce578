"""A made-up language small enough to learn in seconds, in the published formats.

Animals do things in places. A hypothesis that repeats the premise's animal and action is entailed, one with
the opposite action contradicts, one about something else is neutral. Synonym pairs make the PPDB.
"""

import gzip
import json
import random
from pathlib import Path

ANIMALS = ["dog", "cat", "horse", "bird", "cow", "pig", "goat", "duck"]
ACTIONS = [("runs", "rests"), ("eats", "fasts"), ("sings", "is silent"), ("plays", "works")]
PLACES = ["in the park", "at home", "on the hill", "by the river", "near the road"]
TONES = ["awful", "poor", "fair", "good", "superb"]
# fmt: off
SYNONYMS = [("quick", "fast"), ("big", "large"), ("small", "little"), ("happy", "glad"), ("sad", "unhappy"),
            ("begin", "start"), ("end", "finish"), ("help", "assist"), ("buy", "purchase"), ("shop", "store"),
            ("sick", "ill"), ("angry", "mad"), ("smart", "clever"), ("rich", "wealthy"), ("close", "shut")]
# fmt: on


def nli_rows(count: int, seed: int) -> list[tuple[str, str, str]]:
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        animal, (action, opposite), place = rng.choice(ANIMALS), rng.choice(ACTIONS), rng.choice(PLACES)
        label = rng.choice(["entailment", "neutral", "contradiction"])
        second_animal = rng.choice([a for a in ANIMALS if a != animal])
        hypothesis = {
            "entailment": f"the {animal} {action}",
            "contradiction": f"the {animal} {opposite}",
            "neutral": f"the {second_animal} is {rng.choice(['red', 'green', 'blue'])}",
        }[label]
        rows.append((label, f"a {animal} {action} {place} {rng.randrange(50)}", hypothesis))
    return rows


def write_jsonl(path: Path, rows: list[tuple[str, str, str]]) -> Path:
    lines = [json.dumps({"gold_label": label, "sentence1": a, "sentence2": b}) for label, a, b in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_tsv(path: Path, rows: list[tuple[object, str, str]]) -> Path:
    lines = ["label\tsentence1\tsentence2", *("\t".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def ppdb_line(a: str, b: str, label: str | None = None) -> str:
    fields = ["[JJ]", a, b, "PPDB2.0Score=3.5 PPDB1.0Score=20.1", "0-0"] + ([label] if label else [])
    return " ||| ".join(fields)


def write_ppdb(path: Path) -> Path:
    lines = []
    for i, (a, b) in enumerate(SYNONYMS):
        others = [SYNONYMS[(i + step) % len(SYNONYMS)] for step in (3, 5, 6)]
        rows = [(a, b, "Equivalence"), (f"very {a}", a, "ForwardEntailment")]
        rows += [(b, f"very {b}", "ReverseEntailment"), (a, others[0][0], "Independent")]
        rows += [(a, others[1][1], "Exclusion"), (b, others[2][0], "OtherRelated")]
        lines += [ppdb_line(*row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_tasks(root: Path) -> Path:
    """Four small tasks in the layout of the data folder: SST-5, STS-B, NLI, paraphrases."""
    rng = random.Random(0)
    things = ["film", "plot", "cast", "score"]
    for split, rows in (("train", 60), ("dev", 20), ("test", 20)):
        sst = root / "senteval/downstream/SST/fine" / f"sentiment-{split}"
        sst.parent.mkdir(parents=True, exist_ok=True)
        marks = [rng.randrange(5) for _ in range(rows)]
        sst.write_text("".join(f"{m} the {rng.choice(things)} is {TONES[m]}\n" for m in marks))
        sts = root / "senteval/downstream/STS/STSBenchmark" / f"sts-{split}.csv"
        sts.parent.mkdir(parents=True, exist_ok=True)
        lines = []
        for i in range(rows):
            (a, b), is_paraphrase = rng.sample(things, 2), rng.random() < 0.5
            pair = f"the {a} here\tthe {a if is_paraphrase else b}"
            lines.append(f"main\tnews\t2012\t{i:04d}\t{5.0 if is_paraphrase else 0.5}\t{pair}\n")
        sts.write_text("".join(lines))
    for name, rows in (("dev", 80), ("test", 20)):
        (root / "nli").mkdir(exist_ok=True)
        write_tsv(root / "nli" / f"snli_{name}.tsv", nli_rows(rows, len(name)))
    (root / "paraphrase").mkdir()
    for name, rows in (("train", 80), ("test", 20)):
        table = write_tsv(
            root / "pairs.tsv",
            [(i % 2, f"the {things[i % 4]} {i}", f"that {things[(i + 1 - i % 2) % 4]}") for i in range(rows)],
        )
        archive = root / "paraphrase" / f"twitter_url_{name}.tsv.gz"
        archive.write_bytes(gzip.compress(table.read_bytes()))
    return root
