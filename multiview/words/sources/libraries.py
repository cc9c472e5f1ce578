"""Word vectors that other libraries' models hold: spaCy pipelines and model2vec folders.

Only data are read: neither library's model is built, so no code of a model runs.

Legend of dimension suffixes: W words, E vector size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from corpora.inputs import input_hash, list_files
from corpora.support.errors import UserError
from corpora.support.files import read_json
from multiview.words.vectors import Float, Source, named_by_place

WORD_START = "▁"
"""Before the pieces of a unigram tokenizer that begin a word."""


def of_spacy(name: str, limit: int) -> Source:
    """The vectors of a spaCy pipeline, in the order of their rows.

    Args:
        name: folder of a pipeline, or an installed package such as ``en_core_web_md``.
        limit: words to read at most.

    Raises:
        UserError: no pipeline of that name.
    """
    folder = _pipeline_folder(name)
    meta = read_json(folder / "meta.json")
    licence = meta.get("license") if isinstance(meta, dict) else None
    vocab = folder / "vocab"
    return Source(
        f"spacy:{name}",
        named_by_place(folder),
        {"content": input_hash(vocab, list_files(vocab)), "limit": limit},
        f"the vectors of spaCy's `{name}` (licence: {licence or 'not stated'})",
        lambda: islice(_spacy_vectors(name, vocab), limit),
    )


def of_model2vec(folder: Path, limit: int) -> Source:
    """The vectors of a model2vec folder, without pieces that do not begin a word.

    Args:
        folder: with model.safetensors and tokenizer.json.
        limit: words to read at most.

    Raises:
        UserError: a file is missing.
    """
    files = [folder / "model.safetensors", folder / "tokenizer.json"]
    for file in files:
        if not file.is_file():
            raise UserError(f"{file}: no such file; a folder of vectors is one of model2vec's")
    return Source(
        str(folder),
        named_by_place(folder),
        {"content": input_hash(folder, files), "limit": limit},
        f"the vectors of the model2vec model `{folder.name}`",
        lambda: islice(_model2vec_vectors(*files), limit),
    )


def _pipeline_folder(name: str) -> Path:
    """Where a spaCy pipeline's data lie; a package is found without being imported."""
    folder = Path(name)
    if not folder.is_dir() and name.isidentifier():
        found = find_spec(name)
        if found is not None and found.submodule_search_locations:
            folder = Path(found.submodule_search_locations[0])
    # A package keeps its data in a folder with its version.
    for place in (folder, *sorted(folder.glob(f"{folder.name}-*"))):
        if (place / "vocab").is_dir():
            return place
    raise UserError(
        f"spacy:{name}: neither the folder of a spaCy pipeline nor an installed one; "
        f"python -m spacy download {name} installs spaCy's own"
    )


def _spacy_vectors(name: str, vocab: Path) -> Iterator[tuple[str, Float]]:
    from spacy.vocab import Vocab

    try:
        loaded = Vocab().from_disk(vocab)
    except Exception as error:  # of any type, when a file is damaged
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{vocab}: cannot be loaded ({first})") from None
    vectors = loaded.vectors
    if vectors.mode != "default" or not len(vectors.key2row):
        raise UserError(f"spacy:{name}: has no word vectors; pipelines in md and lg have")
    data_WE = np.asarray(vectors.data, dtype=np.float32)
    for key, row in sorted(vectors.key2row.items(), key=lambda item: int(item[1])):
        yield loaded.strings[key], data_WE[row]


def _model2vec_vectors(weights: Path, tokenizer: Path) -> Iterator[tuple[str, Float]]:
    try:
        tensors = load_file(weights)
        table = tensors["embeddings"].to(torch.float32).numpy()
    except (OSError, KeyError, SafetensorError) as error:
        raise UserError(f"{weights}: cannot be loaded ({str(error).splitlines()[0]})") from None
    # Since its version 0.6 several pieces may share a row, and each has a weight.
    rows = tensors["mapping"].numpy() if "mapping" in tensors else np.arange(len(table))
    weight = tensors["weights"].to(torch.float32).numpy() if "weights" in tensors else np.ones(len(rows))
    words = _whole_words(read_json(tokenizer), tokenizer)
    if table.ndim != 2 or len(weight) != len(rows) or max(words, default=-1) >= len(rows):
        raise UserError(
            f"{weights}: embeddings {list(table.shape)} for {max(words, default=-1) + 1} pieces of "
            f"{tokenizer.name}"
        )
    for piece in sorted(words):
        yield words[piece], (table[rows[piece]] * weight[piece]).astype(np.float32)


def _whole_words(stored: Any, path: Path) -> dict[int, str]:
    """The words of a tokenizer.json by id, without special tokens and pieces inside words.

    Raises:
        UserError: the file is of another kind.
    """
    model = stored.get("model") if isinstance(stored, dict) else None
    if not isinstance(model, dict):
        raise UserError(f"{path}: not a tokenizer of the tokenizers library")
    kind, vocabulary = model.get("type"), model.get("vocab")
    special = {token.get("id") for token in stored.get("added_tokens") or [] if token.get("special")}
    if kind in ("WordPiece", "WordLevel") and isinstance(vocabulary, Mapping):
        inside = str(model.get("continuing_subword_prefix") or "##") if kind == "WordPiece" else ""
        words = {
            int(row): word
            for word, row in vocabulary.items()
            if not (inside and word.startswith(inside)) and not word.startswith("[unused")
        }
    elif kind == "Unigram" and isinstance(vocabulary, list):
        words = {
            row: piece.removeprefix(WORD_START)
            for row, (piece, _) in enumerate(vocabulary)
            if piece.startswith(WORD_START)
        }
    else:
        raise UserError(f"{path}: a {kind} tokenizer has no list of whole words; WordPiece and Unigram have")
    return {row: word for row, word in words.items() if row not in special and word}
