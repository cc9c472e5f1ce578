"""A small set of FAQ retrieval, and the texts of its vocabulary."""

from pathlib import Path

TOPICS = ("password", "invoice", "delivery", "refund", "account", "language", "printer", "holiday")
TEXTS = [f"how do I change the {topic} ? change my my my {topic} please" for topic in TOPICS]


def write_set(folder: Path) -> Path:
    """Eight entries, four queries about each: the first tests, the others train."""
    folder.mkdir(parents=True)
    tables = {
        "faq": ["doc_id\tquestion\tanswer"],
        "queries-test": ["query_id\tquery"],
        "queries-train": ["query_id\tquery"],
        "qrels": ["query_id\tdoc_id\trelevance", "q0.0\td1\t0"],
    }
    for i, topic in enumerate(TOPICS):
        tables["faq"].append(f"d{i}\tHow do I change the {topic} ?\tOpen the {topic} page and edit it .")
        for k in range(4):
            part = "queries-train" if k else "queries-test"
            tables[part].append(f"q{i}.{k}\tchange {'my ' * k}{topic} please")
            tables["qrels"].append(f"q{i}.{k}\td{i}\t1")
    for name, lines in tables.items():
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return folder
