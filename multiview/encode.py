"""Encode a file or a tree cache into sentence vectors.

    python -m multiview.encode runs/models/dep-const-laptop sentences.txt --output vectors.npy
    python -m multiview.encode runs/models/dep-const-laptop runs/trees/pydocs --output vectors.npy

In: a model folder, or ``builtin``; a text file with one sentence per line, or a tree cache. Blank lines end
documents and are no sentences. Out: ``.npy`` (float32 [n, D]), and a JSON file with the options
beside it. ``python -m multiview.search`` finds the nearest sentences.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from corpora.inputs import is_stream, read_lines
from corpora.support.cli import Command, Share, config_to_json, configuration
from corpora.support.errors import UserError
from corpora.support.files import write_array, write_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from multiview.model import MultiViewEncoder
    from parsing.trees.cache import TreeCache


@configuration
class ModelOptions:
    """Which model a command opens."""

    model: Positional[Path]
    """Model folder, or builtin."""
    dep_model: str = ""
    """Dependency parser the model was trained with, unless it is the builtin one."""
    const_model: str = ""
    """Constituency parser the model was trained with, unless it is the builtin one."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""

    def load(self) -> MultiViewEncoder:
        """The model."""
        from multiview.model import MultiViewEncoder

        return MultiViewEncoder.load(
            self.model,
            self.device,
            dep_model=self.dep_model,
            const_model=self.const_model,
        )


@configuration
class VectorOptions(ModelOptions):
    """Which model a command opens, and what its vectors hold."""

    structure: Share | None = None
    """Share of who did what to whom in the cosine, 0 to 1; by default the model's."""
    views: str = ""
    """Only these views, separated by commas; all by default."""

    def encoder(self) -> tuple[MultiViewEncoder, Callable[..., NDArray[np.float32]]]:
        """The model, and its ``encode`` with these views and this share."""
        encoder, views = self.load(), self.views.split(",") if self.views else None
        return encoder, partial(encoder.encode, views=views, structure=self.structure)


@configuration
class EncodeConfig(VectorOptions):
    """Options of ``python -m multiview.encode``."""

    file: Positional[Path]
    """Text file, one sentence per line, - for standard input, a pipe, or a tree cache."""
    output: Path | None = None
    """Where the vectors go (.npy); by default FILE.npy."""
    trees: Path | None = None
    """Tree cache; sentences found in it are not parsed again."""
    normalize: bool = False
    """Scale every vector to length 1."""
    expand: str | None = None
    """Expand the vocabulary by a file of vectors first."""


def open_sentences(path: Path) -> tuple[list[str] | None, TreeCache | None]:
    """The lines of a text file that are not blank (those end documents), or a tree cache.

    Args:
        path: ``-`` is standard input.

    Raises:
        UserError: it is neither or empty, or what :func:`sentences_of` raises.
    """
    from parsing.trees.cache import TreeCache

    if path.is_dir():
        return None, TreeCache.open(path)
    texts = list(sentences_of(path))
    if not texts:
        raise UserError(f"{path}: empty")
    return texts, None


def sentences_of(path: Path) -> Iterator[str]:
    """The lines of a text file, or of standard input (``-``), that are not blank.

    Raises:
        UserError: no such file, or a line (it is named) is not UTF-8 or too long.
    """
    for line in read_lines(path):
        if line.replaced or line.truncated:
            raise UserError(f"{path}, line {line.number}: not UTF-8, or longer than 256 KiB")
        if line.text.strip():
            yield line.text


def main(config: EncodeConfig) -> int:
    """Encode a file or a cache."""
    from parsing.trees.cache import TreeCache

    output = config.output or Path(f"{config.file}.npy")
    if config.output is None and is_stream(config.file):
        raise UserError("--output: needed for standard input and pipes")
    if output.suffix != ".npy":
        raise UserError(f"--output {output}: must end in .npy")
    encoder, encode = config.encoder()
    if config.expand is not None:
        print(f"words    {encoder.expand_vocabulary(config.expand)} added from {config.expand}")
    texts, trees = open_sentences(config.file)
    if trees is None and config.trees is not None:
        trees = TreeCache.open(config.trees)
    start = time.perf_counter()
    vectors = encode(texts, normalize_embeddings=config.normalize, trees=trees)
    seconds = time.perf_counter() - start
    write_array(output, vectors)
    write_json(Path(f"{output}.json"), config_to_json(config))
    print(f"vectors  {output}: {vectors.shape[0]} x {vectors.shape[1]} float32")
    print(f"speed    {len(vectors) / max(seconds, 1e-9):.0f} sentences/s")
    return 0


cli = Command(
    EncodeConfig,
    main,
    "multiview.encode",
    "Vectors of the sentences of a file or tree cache.",
    kept="nothing was written",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
