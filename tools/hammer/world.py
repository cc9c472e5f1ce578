"""The inputs: made once, in a folder, when a target first asks for them."""

from __future__ import annotations

import gzip
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

WORDS = (
    *("the", "a", "cat", "dog", "sat", "slept", "on", "mat", "old", "red", "quickly", "and", "prices"),
    *("fell", "Monday", "née", "日本語", "x-ray", "3.5", "'"),
)
SENTENCES = 48
SHARD = 16
"""Sentences of a shard, so that a small cache has several."""


STORED = ("a cat", "a dog", "no")
"""The texts of the small cache of sentence vectors."""


def sentences(count: int = SENTENCES) -> list[tuple[str, ...]]:
    """Sentences of 2 to 9 words."""
    rng = random.Random(5)
    return [tuple(rng.choices(WORDS, k=rng.randint(2, 9))) for _ in range(count)]


class World:
    """A folder of inputs.

    Args:
        root: the folder; what another process has made in it is used.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, name: str) -> Path:
        """The input ``name`` (see ``MAKERS``), made now if it is not there."""
        path = self.root / "inputs" / name
        if not path.exists():
            making = self.root / f"making-{name}-{os.getpid()}"
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir(parents=True)
            MAKERS[name](making, self)
            path.parent.mkdir(exist_ok=True)
            os.replace(making, path)
        return path


def _text(folder: Path, world: World) -> None:
    lines = [" ".join(words).capitalize() + " ." for words in sentences(120)]
    blocks = ["\n".join(lines[start : start + 6]) for start in range(0, len(lines), 6)]
    text = "\n\n".join(blocks) + "\n"
    (folder / "corpus.txt").write_text(text, encoding="utf-8")
    (folder / "corpus.txt.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _cache(folder: Path, world: World) -> None:
    from tests.parsing.cache.test_reader import write_cache

    write_cache(folder, sentences(), documents=(0, 5, 6, 20, 33), shard=SHARD)


def _models(folder: Path, world: World) -> None:
    """``trained``, and ``fixed`` over pre-trained vectors, with checkpoints and logs."""
    from multiview.train import cli

    small = "--encoder.dim 4 --table.dim 4 --loop.batch 8 --loop.max-steps 3 --loop.checkpoint-every 2"
    common = ["--trees", str(world("cache")), "--output", str(folder), "--views", "dep,const,seq"]
    common += [*small.split(), "--device", "cpu", "--validation.sentences", "8", "--loop.threads", "1"]
    _quietly(lambda: cli([*common, "--name", "trained"]))
    vectors = str(world("vectors") / "glove.txt")
    _quietly(lambda: cli([*common, "--name", "fixed", "--words", "fixed", "--vectors", vectors]))


def _parsers(folder: Path, world: World) -> None:
    """``dep`` and ``const``, tiny, with training folders."""
    from parsing.train import cli

    banks = world("treebanks")
    small = "--model.encoder.word-dim 8 --model.encoder.hidden 8 --model.encoder.layers 1 --loop.epochs 2"
    for kind, name in (("dep", "bank.conllu"), ("const", "bank.ptb")):
        words = [kind, "--train", str(banks / name), "--dev", str(banks / name)]
        words += ["--output", str(folder / kind), *small.split()]
        _quietly(lambda words=words: cli(words))  # type: ignore[misc]


def _treebanks(folder: Path, world: World) -> None:
    from tools.hammer.grammar import brackets, conllu

    rng = random.Random(3)
    (folder / "bank.conllu").write_text("".join(conllu(rng) for _ in range(40)), encoding="utf-8")
    (folder / "bank.ptb").write_text("".join(brackets(rng) for _ in range(40)), encoding="utf-8")


def _vectors(folder: Path, world: World) -> None:
    """GloVe text, word2vec text and word2vec binary."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = {word: rng.standard_normal(4).astype("<f4") for word in WORDS}
    text = "".join(f"{word} {' '.join(f'{x:.4f}' for x in row)}\n" for word, row in rows.items())
    (folder / "glove.txt").write_text(text, encoding="utf-8")
    (folder / "word2vec.txt").write_text(f"{len(rows)} 4\n{text}", encoding="utf-8")
    binary = b"".join(word.encode() + b" " + row.tobytes() + b"\n" for word, row in rows.items())
    (folder / "word2vec.bin").write_bytes(f"{len(rows)} 4\n".encode() + binary)


def _senteval(folder: Path, world: World) -> None:
    from tests.studies.finetune.fixtures import write_tasks

    write_tasks(folder)
    rng = random.Random(2)
    down = folder / "senteval/downstream"
    (down / "CR").mkdir(parents=True)
    for end, words in (("pos", "good bright rich"), ("neg", "bad dull poor")):
        lines = [" ".join(rng.choices([*words.split(), *WORDS[:6]], k=5)) for _ in range(24)]
        (down / f"CR/custrev.{end}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    vectors = ["good", "bright", "rich", "bad", "dull", "poor", *WORDS[:6]]
    rows = [f"{word} {' '.join(f'{rng.gauss(0, 1):.3f}' for _ in range(6))}\n" for word in vectors]
    (folder / "words.txt").write_text("".join(rows), encoding="utf-8")


def _store(folder: Path, world: World) -> None:
    """Sentence vectors in two shards."""
    import numpy as np

    from senteval_runner.vectors.embed import VectorStore

    store = VectorStore(folder)
    for part in (STORED[:2], STORED[2:]):
        store.add(part, np.random.default_rng(len(part)).random((len(part), 5), dtype=np.float32))


def _pairs(folder: Path, world: World) -> None:
    from tests.studies.finetune import fixtures

    fixtures.write_jsonl(folder / "nli.jsonl", fixtures.nli_rows(60, 1))
    fixtures.write_tsv(folder / "nli.tsv", [(label, a, b) for label, a, b in fixtures.nli_rows(60, 2)])
    fixtures.write_tsv(folder / "pairs.tsv", [(i % 2, f"a {i}", f"b {i}") for i in range(30)])
    fixtures.write_ppdb(folder / "ppdb.txt")
    fixtures.write_similarity(folder / "similarity.tsv")


def _faq(folder: Path, world: World) -> None:
    rows = [f"d{i}\twhat is {word}\tit is {word}\n" for i, word in enumerate(WORDS)]
    (folder / "faq.tsv").write_text("doc_id\tquestion\tanswer\n" + "".join(rows), encoding="utf-8")
    queries = [f"q{i}\ttell me of {word}\n" for i, word in enumerate(WORDS)]
    (folder / "queries.tsv").write_text("query_id\tquery\n" + "".join(queries), encoding="utf-8")
    judged = [f"q{i}\td{i}\t1\n" for i in range(len(WORDS))]
    (folder / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\n" + "".join(judged), encoding="utf-8")


def _passages(folder: Path, world: World) -> None:
    from tests.studies.passages.passage_sets import write_wikiqa

    write_wikiqa(folder / "wikiqa")


def _quietly(call: Callable[[], int]) -> None:
    """Run a command in a fork, so that the hammer itself stays single-threaded."""
    from tools.hammer.processes import Child

    ended = Child(call, Path.cwd()).wait()
    if ended.code != 0:
        raise RuntimeError(f"an input cannot be made: {ended.text[-2000:]}")


MAKERS: dict[str, Callable[[Path, World], None]] = {
    "text": _text,
    "cache": _cache,
    "models": _models,
    "parsers": _parsers,
    "treebanks": _treebanks,
    "vectors": _vectors,
    "senteval": _senteval,
    "pairs": _pairs,
    "store": _store,
    "faq": _faq,
    "passages": _passages,
}
