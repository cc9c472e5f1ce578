"""Encode a file or a tree cache into sentence vectors.

    python -m multiview.encode runs/models/builtin-laptop sentences.txt --output vectors.npy
    python -m multiview.encode runs/models/builtin-laptop runs/trees/books --output vectors.npy

In: a model (a folder, ``builtin``, or any name that ``senteval_runner.run`` takes); a text file with one
sentence per line, or a tree cache. Blank lines end documents and are no sentences. Out: ``.npy`` (float32
[n, D]), and a JSON file with the options beside it.
Many sentences are encoded and written in pieces (:mod:`runtime.large_arrays`): memory does not grow with
them, and the same command goes on where a killed one stopped. ``python -m multiview.search`` finds the
nearest sentences.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from corpora.characters import normalise_text
from corpora.inputs import is_stream, read_lines
from corpora.text import Tokenizer
from multiview.names.grammar import Name, parse_names, split_parts
from parsing.names import find_parser
from runtime import __version__
from runtime.cli import Command, Share, config_to_json, configuration
from runtime.errors import UserError
from runtime.files import json_digest, output_file, write_json
from runtime.large_arrays import PIECE, check_room, write_rows
from runtime.process import peak_memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from multiview.model import MultiViewEncoder
    from multiview.names.opened import OpenedEncoder
    from parsing.trees.cache import TreeCache


@configuration
class ModelOptions:
    """The options that say which model a command opens."""

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """Model folder, builtin, or any other name of an encoder that senteval_runner.run takes."""
    dep_model: str = ""
    """Dependency parser the model was trained with, unless it is the builtin one."""
    const_model: str = ""
    """Constituency parser the model was trained with, unless it is the builtin one."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""
    products: Literal["float32", "int8"] = "float32"
    """How a CPU multiplies by the weights of the model and of its parsers; int8 is faster and rounds more."""

    def parsed_names(self) -> list[Name]:
        """Parse the name of the encoder; refuse names of encoders and parsers that mean nothing.

        Nothing heavy is imported.
        """
        for kind, parser in self.parsers.items():
            find_parser(kind, parser)
        return parse_names(self.spec)

    @property
    def spec(self) -> str:
        """The name of the encoder."""
        return self.model

    @property
    def parsers(self) -> dict[str, str]:
        """Names of the parsers that the options give, by annotation."""
        names = {"dep": self.dep_model, "const": self.const_model}
        return {kind: name for kind, name in names.items() if name}

    def load(self) -> MultiViewEncoder:
        """Load the model; refuse an encoder that reads no trees, and a part of a model."""
        name, *others = self.parsed_names()
        from multiview.names.recipe import Loader, recipe_of

        recipe = recipe_of(name)
        if others or recipe.reads != "trees":
            raise UserError(f"model {self.model!r}: reads no trees; give one of multiview.train")
        if name.views or name.readout or name.scale:
            raise UserError(
                f"model {self.model!r}: is read whole here; leave out ?views, ?readout and ?scale"
            )
        options: dict[str, Any] = {"parsers": self.parsers, "products": self.products}
        model: MultiViewEncoder = Loader(recipe=recipe, device=self.device, **options).loaded
        return model


@configuration
class VectorOptions(ModelOptions):
    """The options that say which model a command opens, and what its vectors hold."""

    structure: Share | None = None
    """Share of who did what to whom in the cosine, 0 to 1; by default the model's."""
    views: str = ""
    """Only these views, separated by commas; all by default."""
    expand: str | None = None
    """Give a model the other words of a file of vectors as well."""

    @property
    def spec(self) -> str:
        """The name of the encoder with these views, this share and these words."""
        options = f"?views={self.views}" if self.views else ""
        if self.expand:
            options += f"?expand={self.expand}"
        if self.structure is not None:
            options += f"?structure={abs(self.structure):f}"
        return "+".join(part + options for part in split_parts(self.model))

    def encoder(self, names: Sequence[Name]) -> OpenedEncoder:
        """Open the encoder of :meth:`parsed_names`; one with ``?scale=CACHE`` gives its features."""
        from multiview.names.opened import open_encoder

        names = [replace(name, readout="features") if name.scale_trees else name for name in names]
        return open_encoder(names, device=self.device, parsers=self.parsers, products=self.products)


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


class SentenceInput:
    """The lines of a text file, or of standard input (``-``), that are not blank, or a tree cache.

    With ``split``, each sentence of a line counts, and :meth:`line` tells the line.
    """

    def __init__(self, path: Path, *, split: bool = False) -> None:
        self.texts: list[str] | None = None
        self.trees: TreeCache | None = None
        self._ends: Sequence[int] = ()
        if path.is_dir():
            from parsing.trees.cache import TreeCache

            self.trees = TreeCache.open(path)
        else:
            self.texts = list(sentences_of(path))
            if split:
                by_line = [*map(Tokenizer("spacy").split_sentences, self.texts)]
                self.texts, self._ends = [*chain(*by_line)], [*accumulate(map(len, by_line))]
            if not self.texts:
                raise UserError(f"{path}: empty")

    @property
    def sha256(self) -> str:
        """A digest of the sentences."""
        if self.trees is not None:
            return str(self.trees.identity["content_sha256"])
        return json_digest(self.texts, 64)

    def __len__(self) -> int:
        return len(self.texts if self.texts is not None else self.trees or ())

    def text(self, row: int) -> str:
        """Return one sentence."""
        if self.trees is not None:
            return " ".join(next(self.trees.read(row, row + 1, ("token",)).words()))
        return (self.texts or [])[row]

    def line(self, row: int) -> int:
        """Return the number of a sentence's line, from 0, among the lines that are not blank."""
        return bisect(self._ends, row) if self._ends else row

    def write_vectors(
        self,
        path: Path,
        encoder: OpenedEncoder,
        identity: Mapping[str, Any],
        *,
        trees: TreeCache | None = None,
        normalize: bool = False,
    ) -> int:
        """Write a vector a sentence, float32 [n, D], and return how many were encoded now.

        ``identity`` are JSON values that decide the vectors; sentences in ``trees`` are not parsed again. Of
        many sentences disk and memory are said first, and a disk without room is refused.
        """
        is_many = len(self) > PIECE

        def encode(first: int, stop: int) -> NDArray[np.float32]:
            options: dict[str, Any] = {
                "normalize": normalize,
                "show_progress_bar": False if is_many else None,
            }
            if self.trees is not None:
                return encoder.encode(None, trees=_CacheSlice(self.trees, first, stop), **options)
            return encoder.encode((self.texts or [])[first:stop], trees=trees, **options)

        if is_many:
            row_bytes = encode(0, 1).nbytes
            size, memory = len(self) * row_bytes, peak_memory() + 3 * PIECE * row_bytes
            print(
                f"{len(self):,} vectors of {row_bytes // 4:,} numbers: {size / 1e9:.1f} GB of disk, about "
                f"{memory / 1e9:.1f} GB of memory; the same command goes on where a stopped one was",
                file=sys.stderr,
            )
            check_room(path, size)
        return write_rows(path, identity, len(self), encode)


class _CacheSlice:
    """Successive sentences of a tree cache, which an encoder reads as if they were a whole cache."""

    def __init__(self, trees: TreeCache, first: int, stop: int) -> None:
        self.trees, self.first, self.stop = trees, first, stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trees, name)

    def __len__(self) -> int:
        return self.stop - self.first

    def read(self, start: int, stop: int, *options: Any) -> Any:
        return self.trees.read(self.first + start, self.first + stop, *options)

    def words(self) -> Iterator[list[str]]:
        return self.trees.words([(self.first, self.stop)])


def sentences_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file, or of ``-``, that are not blank; a UserError names one that is no text."""
    for line in read_lines(path, stream=True):
        if line.has_replacements or line.is_truncated:
            raise UserError(f"{path}, line {line.number}: not UTF-8, or longer than 256 KiB")
        if normalise_text(line.text).strip():
            yield line.text


def main(config: EncodeConfig) -> int:
    """Encode a file or a cache."""
    import numpy as np

    names = config.parsed_names()
    output = config.output or Path(f"{config.file}.npy")
    if config.output is None and is_stream(config.file):
        raise UserError("--output: needed for standard input and pipes")
    if output.suffix != ".npy":
        raise UserError(f"--output {output}: must end in .npy")
    # Files that cannot be written are refused now, not after the work.
    vector_file, options_file = output_file(output), output_file(Path(f"{output}.json"))
    if config.file.resolve() in (vector_file.resolve(), options_file.resolve()):
        raise UserError(f"--output {output}: would replace {config.file}, which is read; give another name")
    sentences = SentenceInput(config.file)
    encoder = config.encoder(names)
    trees = sentences.trees
    if trees is None and config.trees is not None:
        from parsing.trees.cache import TreeCache

        trees = TreeCache.open(config.trees)
    options = config_to_json(config)
    identity = {"text": sentences.sha256, "encoder": encoder.key, "version": __version__, "options": options}
    start = time.perf_counter()
    count = sentences.write_vectors(vector_file, encoder, identity, trees=trees, normalize=config.normalize)
    seconds = time.perf_counter() - start
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
