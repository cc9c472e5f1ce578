"""Word vectors that are finished: in a file or a model2vec folder, whose data alone are read.

No corpus is needed to make them, and this imports nothing that reads one.

Legend of dimension suffixes: W words, E vector size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from corpora.inputs import input_hash
from corpora.support.errors import UserError
from corpora.support.files import read_json
from multiview.words.vectors import Float, Source, named_by_place, of_file

WORD_START = "▁"
"""Before the pieces of a unigram tokenizer that begin a word."""


def given_source(spec: str, limit: int) -> Source:
    """What a name of finished vectors means; they are not read yet.

    Args:
        spec: a file or a model2vec folder.
        limit: words to read at most, from the top.

    Raises:
        UserError: what is named is missing.
    """
    return of_model2vec(Path(spec), limit) if Path(spec).is_dir() else of_file(Path(spec), limit)


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
