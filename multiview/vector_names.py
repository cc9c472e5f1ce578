"""The grammar of ``--vectors``: ``[WEIGHT*]SOURCE[@DIM]``, several of these joined by ``+``.

    distil:all-MiniLM-L6-v2
    taught:all-MiniLM-L6-v2@384+0.5*train:books.txt.xz@256

Imports nothing heavy: options are checked by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from corpora.support.errors import UserError

DISTIL, SPACY, TAUGHT = "distil:", "spacy:", "taught:"
"""Before the name of a sentence encoder, of a spaCy pipeline, of an encoder again."""
TRAIN, NGRAMS = "train", "ngrams"
"""In place of a file."""
TRAIN_ON = f"{TRAIN}:"
"""Before a text."""
MADE = (DISTIL, TAUGHT, TRAIN_ON)
"""Made here, of the dimension that is asked for."""
_PART = re.compile(r"(?:(?P<weight>\d+(?:\.\d+)?)\*)?(?P<source>.+?)(?:@(?P<dim>[1-9]\d{0,4}))?")


@dataclass(frozen=True)
class Part:
    """One of the sources that vectors are joined of."""

    source: str
    """A file, a folder, or a way to make vectors."""
    dim: int | None = None
    """Size of vectors that are made here; None: ``--table.dim``."""
    weight: float | None = None
    """Length of its vectors beside those of the other parts; None: 1."""

    @property
    def made(self) -> bool:
        """Whether it is a way to make vectors, and not the name of some."""
        return self.source in (TRAIN, NGRAMS) or self.source.startswith(MADE)

    @property
    def has_input(self) -> bool:
        """Whether what it names is here; encoders and pipelines are looked for when they are loaded."""
        if self.source.startswith(TRAIN_ON):
            return Path(self.source.removeprefix(TRAIN_ON)).exists()
        if self.made or self.source.startswith(SPACY):
            return True
        return Path(self.source).is_file() or Path(self.source, "model.safetensors").is_file()


def parts_of(spec: str) -> list[Part]:
    """What a value of ``--vectors`` joins; a file or folder of that very name is one part.

    Raises:
        UserError: a dimension for vectors that are finished, or a weight of 0.
    """
    if Path(spec).exists():
        return [Part(spec)]
    parts = []
    for text in spec.split("+"):
        found = _PART.fullmatch(text)
        if found is None:
            raise UserError(f"--vectors {spec}: {text!r} is not a source; expected [WEIGHT*]SOURCE[@DIM]")
        source, dim, weight = found["source"], found["dim"], found["weight"]
        part = Part(source, int(dim) if dim else None, float(weight) if weight else None)
        if part.dim and not part.made:
            raise UserError(f"--vectors {spec}: {source} has a size of its own; leave out @{dim}")
        if part.weight == 0:
            raise UserError(f"--vectors {spec}: {text} has no length; leave it out")
        parts.append(part)
    return parts
