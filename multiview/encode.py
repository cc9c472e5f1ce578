"""Encode a file or a tree cache into sentence vectors.

    python -m multiview.encode runs/models/builtin-laptop sentences.txt --output vectors.npy
    python -m multiview.encode runs/models/builtin-laptop runs/trees/books --output vectors.npy

In: a model (a folder, ``builtin``, or any name that ``senteval_runner.run`` takes), and a text file with one
sentence per line or a tree cache. Blank lines are skipped. Out: a ``.npy`` file, float32 [n, D], and a JSON
file of the options with the same name and ``.json`` at its end.

Sentences are encoded and written in pieces (:mod:`runtime.large_arrays`), so that memory does not grow with
their number, and the same command continues after an interruption. ``python -m multiview.search`` finds the
sentences nearest to a query.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from corpora.inputs import is_stream
from multiview.names.options import VectorOptions
from multiview.sentence_input import SentenceInput
from runtime import __version__
from runtime.cli import Command, config_to_json, configuration
from runtime.errors import UserError
from runtime.files import output_file, write_json


@configuration
class EncodeConfig(VectorOptions):
    """The options of ``python -m multiview.encode``."""

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """Text file, one sentence per line, - for standard input, a pipe, or a tree cache."""
    output: Path | None = None
    """Where the vectors go (.npy); by default FILE.npy."""
    trees: Path | None = None
    """Tree cache; sentences found in it are not parsed again."""
    normalize: bool = False
    """Scale every vector to length 1."""


def main(config: EncodeConfig) -> int:
    """Write the vectors of a file or a tree cache, and print their size and the speed."""
    import numpy as np

    names = config.parsed_names()
    output = config.output or Path(f"{config.file}.npy")
    if config.output is None and is_stream(config.file):
        raise UserError("--output: needed for standard input and pipes")
    if output.suffix != ".npy":
        raise UserError(f"--output {output}: must end in .npy")
    # Raises UserError now, not after the work, if a file cannot be written.
    vector_file, options_file = output_file(output), output_file(Path(f"{output}.json"))
    if config.file.resolve() in (vector_file.resolve(), options_file.resolve()):
        raise UserError(f"--output {output}: would replace {config.file}, which is read; give another name")
    sentences = SentenceInput(config.file)
    encoder = config.encoder(names)
    trees = sentences.trees
    if trees is None and config.trees is not None:
        from parsing.trees.cache import TreeCache

        trees = TreeCache.open(config.trees)
    text, key, options = sentences.sha256, encoder.key(), config_to_json(config)
    identity = {"text": text, "encoder": key, "version": __version__, "options": options}
    began = time.perf_counter()
    count = sentences.write_vectors(vector_file, encoder, identity, trees=trees, normalize=config.normalize)
    seconds = time.perf_counter() - began
    write_json(options_file, options)
    rows, dim = np.load(vector_file, mmap_mode="r").shape
    print(f"vectors  {output}: {rows} x {dim} float32")
    print(f"speed    {count / max(seconds, 1e-9):.0f} sentences/s")
    return 0


cli = Command(
    EncodeConfig,
    main,
    "multiview.encode",
    "Vectors of the sentences of a file or tree cache.",
    kept_work="the pieces that were written are kept for the same command",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
