"""Encode a file or a tree cache into sentence vectors.

    python -m multiview.encode runs/models/dep-const-laptop sentences.txt --output vectors.npy
    python -m multiview.encode runs/models/dep-const-laptop runs/trees/pydocs --output vectors.h5

In: a model folder, or ``builtin``; a text file with one sentence per line, or a tree cache. An empty line
gets a vector, too, so row i is line i. Out: ``.npy``, or HDF5 with the dataset ``embeddings`` (float32
[n, D]), and a JSON file with the options beside it. ``python -m multiview.search`` finds the nearest
sentences.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from corpora.support.cli import Command
from corpora.support.config import Count, config_to_json, configuration
from corpora.support.errors import UserError
from corpora.support.files import atomic_path, write_array, write_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@configuration
class EncodeConfig:
    """Options of ``python -m multiview.encode``."""

    model: Annotated[Path, tyro.conf.Positional]
    """Model folder, or builtin."""
    file: Annotated[Path, tyro.conf.Positional]
    """Text file, one sentence per line, or a tree cache."""
    output: Path | None = None
    """Where the vectors go (.npy or .h5); by default FILE.npy."""
    trees: Path | None = None
    """Tree cache; sentences found in it are not parsed again."""
    dep_model: str = ""
    """Dependency parser the model was trained with, unless it is the builtin one."""
    const_model: str = ""
    """Constituency parser the model was trained with, unless it is the builtin one."""
    views: str = ""
    """Only these views, separated by commas; all by default."""
    normalize: bool = False
    """Scale every vector to length 1."""
    expand: str | None = None
    """Expand the vocabulary by these vectors first: a file or a model2vec folder."""
    expand_words: Count = 2_000_000
    """Words of those vectors to read at most, from the top."""
    batch_size: Count = 512
    """Sentences encoded at a time."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""


def main(config: EncodeConfig) -> int:
    """Encode a file or a cache."""
    import numpy as np

    from multiview.folder.reading import read_lines
    from multiview.model import MultiViewEncoder
    from parsing.cache.reader import TreeCache

    output = config.output or Path(f"{config.file}.npy")
    if output.suffix not in (".npy", ".h5", ".hdf5"):
        raise UserError(f"--output {output}: must end in .npy, .h5 or .hdf5")
    encoder = MultiViewEncoder.load(
        config.model, config.device, dep_model=config.dep_model, const_model=config.const_model
    )
    if config.expand is not None:
        added = encoder.expand_vocabulary(config.expand, words=config.expand_words)
        print(f"words    {added} added from {config.expand}")
    is_cache = config.file.is_dir()
    texts = None if is_cache else read_lines(config.file)
    source = config.file if is_cache else config.trees
    trees = TreeCache.open(source) if source else None
    views = config.views.split(",") if config.views else None
    start = time.perf_counter()
    vectors = encoder.encode(
        texts, batch_size=config.batch_size, normalize_embeddings=config.normalize, views=views, trees=trees
    )
    seconds = time.perf_counter() - start
    _write(output, np.asarray(vectors), config)
    print(f"vectors  {output}: {vectors.shape[0]} x {vectors.shape[1]} float32")
    print(f"speed    {len(vectors) / max(seconds, 1e-9):.0f} sentences/s")
    return 0


def _write(output: Path, vectors_ND: NDArray[np.float32], config: EncodeConfig) -> None:
    import h5py

    record = Path(f"{output}.json")
    if output.suffix == ".npy":
        write_array(output, vectors_ND)
    else:
        # In memory first: HDF5 crashes over a file that it could not close (a full disk).
        image = io.BytesIO()
        with h5py.File(image, "w", libver="v110") as file:
            file.create_dataset("embeddings", data=vectors_ND, track_times=False)
        with atomic_path(output) as temporary, open(temporary, "wb") as stream:
            stream.write(image.getbuffer())
    write_json(record, config_to_json(config))


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
