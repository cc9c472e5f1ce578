"""Encoders that are functions of sentences, one of which looks vectors up that another program computed."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multiview.pretrained import Encode
from runtime.errors import UserError


@dataclass(frozen=True)
class Function:
    """An encoder that is a function of sentences."""

    encode: Encode


def precomputed(path: Path, device: str | None = None) -> Function:
    """Return the vectors computed elsewhere, by sentence; one without a vector is a UserError."""
    try:
        # Opened here because numpy does not close a damaged archive.
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            sentences, vectors = arrays["sentences"], arrays["vectors"]
        if vectors.ndim != 2 or len(sentences) != len(vectors):
            raise ValueError(f"{len(sentences)} sentences, vectors {list(vectors.shape)}")
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        expected = "arrays 'sentences' (strings) and 'vectors' [n, d]"
        raise UserError(f"{path}: expected {expected} ({error})") from None
    row_of = {str(sentence): row for row, sentence in enumerate(sentences)}

    def encode(batch: Sequence[str]) -> Any:
        missing = [sentence for sentence in batch if sentence not in row_of]
        if missing:
            raise UserError(
                f"{path}: no vector for {len(missing)} of {len(batch)} sentences, first {missing[0]!r}; "
                "python -m studies.sentences FILE --tasks NAMES lists all that an evaluation asks for"
            )
        return vectors[[row_of[sentence] for sentence in batch]]

    return Function(encode)
