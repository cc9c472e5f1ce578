"""Every reader: where its files come from, how it is called, and what it gave as a digest.

``files`` names the victims inside the base folder. Text and JSON go through the grammars (``fuzz``), binary
formats and everything with a checksum through bit flips and cuts (``damage``), where reading must give what
it gave before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tools.hammer.world import STORED

if TYPE_CHECKING:
    from corpora.documents import Sentence

Form = Literal["text", "json", "bytes"]


@dataclass(frozen=True)
class Reader:
    """One way in."""

    name: str
    base: str
    """An input of the world, and a folder inside it: ``models/trained``."""
    files: str
    """Which files to break, as a glob."""
    read: Callable[[Path], str]
    """Reads the base folder; returns a digest of everything it gave."""
    form: Form = "text"


def digest(values: Iterable[Any]) -> str:
    """SHA-256 of what a reader gave: arrays by their bytes, everything else as text."""
    total = hashlib.sha256()
    for value in values:
        whole = value.tobytes() if hasattr(value, "tobytes") else repr(value).encode("utf-8", "replace")
        total.update(len(whole).to_bytes(8, "little") + whole)
    return total.hexdigest()


def _annotation(sentence: Sentence) -> list[Any]:
    """What a treebank file can hold; that bytes were replaced or cut is known to the first reading alone."""
    return [getattr(sentence, name) for name in ("tokens", "tags", "heads", "relations", "tree")]


def _treebank(kind: str, name: str, folder: Path) -> str:
    """Reads a treebank; what was read is written, read again, and must be equal."""
    from corpora import treebanks as banks
    from corpora.support.errors import UserError

    path, again = folder / name, folder / f"again-{name}"
    if kind == "conllu":
        documents = list(banks.read_conllu(path))
        try:
            banks.write_conllu(again, documents)
        except UserError as error:  # a word that CoNLL-U cannot hold; it names the word alone
            raise UserError(f"{path}: {error}") from None
        first = [s for d in documents for s in d.sentences]
        second = [s for d in banks.read_conllu(again) for s in d.sentences]
    else:
        first = list(banks.read_brackets(path))
        banks.write_brackets(again, first)
        second = list(banks.read_brackets(again))
    again.unlink()
    if [_annotation(s) for s in first] != [_annotation(s) for s in second]:
        pairs = [pair for pair in zip(first, second, strict=False) if pair[0] != pair[1]]
        raise AssertionError(f"written and read again, sentences differ: {pairs[:1] or len(second)}")
    return digest(first)


def _text(name: str, format: str, tokenize: str, folder: Path) -> str:
    from corpora.registry import open_corpus

    return digest(open_corpus(folder / name, format=format, tokenize=tokenize))


def _rows(module: str, function: str, name: str, folder: Path) -> str:
    import importlib

    return digest(getattr(importlib.import_module(module), function)(folder / name))


def _vectors(name: str, folder: Path) -> str:
    from multiview.words.vectors import load_word_vectors

    found = load_word_vectors(folder / name, folder / "converted")
    return digest([found.words, found.vectors])


def _converted(folder: Path) -> str:
    """The converted copy of the vectors, which lies beside them; made before the damage."""
    return _vectors("glove.txt", folder)


def _similarity(folder: Path) -> str:
    from corpora.pairs.similarity import find_set

    return digest([find_set("SimLex-999", folder), find_set("RareWord", folder)])


def _tasks(folder: Path) -> str:
    from corpora.senteval.files import read_task

    return digest(read_task(name, folder / "senteval") for name in ("CR", "SST5", "STSBenchmark"))


def _faq(folder: Path) -> str:
    from corpora.ranking.faq import read_faq

    return digest([read_faq(folder)])


def _passages(form: str, folder: Path) -> str:
    from corpora.ranking.read import read_set

    return digest([repr(read_set(f"{form}={folder}", split_seed=0))])


def _trees(folder: Path) -> str:
    """Everything a cache gives."""
    from parsing.cache.reader import TreeCache

    cache = TreeCache.open(folder)
    batch = cache.read(0, len(cache))
    values = [cache.identity, cache.relations, cache.labels, cache.tags, cache.document_ids()]
    values += [cache.documents(), cache.token_counts(), cache.flags(), sorted(cache.type_counts().items())]
    cache.close()
    return digest([*values, batch.sentence_offsets, batch.types, *(getattr(batch, f) for f in batch.fields)])


def _model(folder: Path) -> str:
    """A model's vectors of the sentences of the toy cache."""
    from multiview.model import MultiViewEncoder
    from parsing.cache.reader import TreeCache

    trees = TreeCache.open(folder.parent / "trees")
    vectors = MultiViewEncoder.load(folder, "cpu").encode(None, trees=trees, show_progress_bar=False)
    return digest([vectors])


def _parser(kind: str, folder: Path) -> str:
    from parsing.models import load_constituency_parser, load_dependency_parser

    load = load_dependency_parser if kind == "dep" else load_constituency_parser
    return digest(repr(tree) for tree in load(str(folder)).parse([("a", "cat", "sat"), ("no",)]))


def _checkpoint(folder: Path) -> str:
    """The newest checkpoint; that a damaged one is skipped for the one before counts as refused."""
    from corpora.support.errors import UserError
    from parsing.networks.checkpoints import Checkpoints

    checkpoints = Checkpoints(folder, keep=2)
    found, newest = checkpoints.newest(), checkpoints.listed()[-1]
    if found is None or newest.name != f"step-{found.state['step']:08d}":
        raise UserError(f"{newest}: damaged and skipped")
    tensors = [*sorted(found.weights.items()), *sorted(found.optimiser.items())]
    values = [part for name, tensor in tensors for part in (name, tensor.numpy())]
    return digest([*values, json.dumps(found.state, sort_keys=True)])


def _store(folder: Path) -> str:
    """A cache of sentence vectors."""
    from senteval_runner.vectors.embed import VectorStore

    return digest([VectorStore(folder).get(STORED)])


def _log(folder: Path) -> str:
    from multiview.info import InfoConfig, main

    main(InfoConfig(run=folder))
    return "printed"


def _config(folder: Path) -> str:
    """``--config`` of multiview.train."""
    from multiview.train import cli

    return digest([cli.defaults(["--config", str(folder / "train.json")]) if cli.defaults else None])


_read = partial(partial, _rows)
READERS: tuple[Reader, ...] = (
    Reader("conllu", "treebanks", "bank.conllu", partial(_treebank, "conllu", "bank.conllu")),
    Reader("brackets", "treebanks", "bank.ptb", partial(_treebank, "ptb", "bank.ptb")),
    Reader("lines", "text", "corpus.txt", partial(_text, "corpus.txt", "lines", "space")),
    Reader("running", "text", "corpus.txt", partial(_text, "corpus.txt", "running", "spacy")),
    Reader("gzip", "text", "corpus.txt.gz", partial(_text, "corpus.txt.gz", "lines", "space"), "bytes"),
    Reader("glove", "vectors", "glove.txt", partial(_vectors, "glove.txt")),
    Reader("word2vec", "vectors", "word2vec.txt", partial(_vectors, "word2vec.txt")),
    Reader("word2vec-bin", "vectors", "word2vec.bin", partial(_vectors, "word2vec.bin"), "bytes"),
    Reader("nli-jsonl", "pairs", "nli.jsonl", _read("corpora.pairs.labelled", "read_nli", "nli.jsonl")),
    Reader("nli-tsv", "pairs", "nli.tsv", _read("corpora.pairs.labelled", "read_nli", "nli.tsv")),
    Reader("pairs", "pairs", "pairs.tsv", _read("corpora.pairs.labelled", "read_binary", "pairs.tsv")),
    Reader("ppdb", "pairs", "ppdb.txt", _read("corpora.pairs.labelled", "read_ppdb", "ppdb.txt")),
    Reader("senteval", "senteval", "senteval/downstream/*/**/*", _tasks),
    Reader("faq", "faq", "*.tsv", _faq),
    Reader("passages", "passages/wikiqa", "*.tsv", partial(_passages, "wikiqa")),
    Reader("manifest", "cache", "manifest.json", _trees, "json"),
    Reader("model-json", "models/trained", "*.json", _model, "json"),
    Reader("model-log", "models/trained", "log.jsonl", _log),
    Reader("vocabulary", "models/trained", "vocab.txt", _model),
    Reader("train-json", "models/trained", "train.json", _config, "json"),
    Reader("parser-json", "parsers/dep", "*.json", partial(_parser, "dep"), "json"),
    Reader("state-json", "models/trained/checkpoints", "*/state.json", _checkpoint, "json"),
)
"""Whose input is made up; reading must end in time, in a value or in one line."""

CHECKSUMMED: tuple[Reader, ...] = (
    Reader("shard", "cache", "shard-*.h5", _trees, "bytes"),
    Reader("manifest", "cache", "manifest.json", _trees, "bytes"),
    Reader("model", "models/trained", "[!R]*", _model, "bytes"),
    Reader("fixed-model", "models/fixed", "[!R]*", _model, "bytes"),
    Reader("dep-parser", "parsers/dep", "[!R]*", partial(_parser, "dep"), "bytes"),
    Reader("const-parser", "parsers/const", "[!R]*", partial(_parser, "const"), "bytes"),
    Reader("checkpoint", "models/trained/checkpoints", "*/*", _checkpoint, "bytes"),
    Reader("sentence-vectors", "store", "*", _store, "bytes"),
    Reader("converted-vectors", "vectors", "converted/**/*", _converted, "bytes"),
    Reader("gzip", "text", "corpus.txt.gz", partial(_text, "corpus.txt.gz", "lines", "space"), "bytes"),
)
"""Whose files carry a checksum; reading a damaged one must give what it gave before, or one line."""
