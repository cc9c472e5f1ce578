"""Sentences in, vectors out.

    python -m multiview.encode runs/models/dep-const-laptop sentences.txt --output vectors.npy
    python -m multiview.encode runs/models/dep-const-laptop runs/trees/pydocs --output vectors.h5

In: a text file with one sentence per line (an empty line gives a vector too, so that row i is line i), or a
tree cache. Out: ``.npy``, or HDF5 with the dataset ``embeddings`` (float32 [n, D]) and the options as JSON
beside it. ``python -m multiview.search`` finds the nearest sentences.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from corpora.support.cli import Command
from corpora.support.config import config_to_json, configuration
from corpora.support.errors import UserError
from corpora.support.files import atomic_path, write_json

if TYPE_CHECKING:
    from multiview.model import MultiViewEncoder
    from parsing.cache.reader import TreeCache

CALIBRATION_SENTENCES = 512


@configuration
class EncodeConfig:
    """Options of ``python -m multiview.encode``."""

    model: Annotated[Path, tyro.conf.Positional]
    """Model folder."""
    file: Annotated[Path, tyro.conf.Positional]
    """Text file, one sentence per line, or a tree cache."""
    output: Path | None = None
    """Where the vectors go, .npy or .h5; by default FILE.npy beside the input."""
    trees: Path | None = None
    """Tree cache that holds (some of) the sentences, to skip parsing them."""
    dep_model: str = ""
    """Dependency parser the model was trained with, when it is not the builtin one."""
    const_model: str = ""
    """Constituency parser the model was trained with, when it is not the builtin one."""
    views: str = ""
    """Only these views, separated by commas; all by default."""
    normalize: bool = False
    """Scale every vector to length 1."""
    expand: Path | None = None
    """Pre-trained vectors to expand the model's vocabulary with before encoding."""
    expand_words: int = 200_000
    """Words to add at most."""
    batch_size: int = 64
    """Sentences encoded at a time."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""
    seed: int = 0
    """Accepted by every command; encoding draws nothing at random."""
    dry_run: bool = False
    """Print the configuration, sizes and an estimate of time, memory and disk; write nothing."""


def main(config: EncodeConfig) -> int:
    """Encode a file or a cache."""
    import numpy as np

    from multiview.model import MultiViewEncoder
    from multiview.training.data import open_trees

    output = config.output or Path(f"{config.file}.npy")
    if output.suffix not in (".npy", ".h5", ".hdf5"):
        raise UserError(f"--output {output}: must end in .npy, .h5 or .hdf5")
    encoder = MultiViewEncoder.load(
        config.model,
        config.device,
        dep_model=config.dep_model,
        const_model=config.const_model,
    )
    if config.expand is not None:
        added = encoder.expand_vocabulary(config.expand, limit=config.expand_words)
        print(f"words    {added} added from {config.expand}")
    is_cache = config.file.is_dir()
    texts: list[Any] | None = None if is_cache else read_lines(config.file)
    source = config.file if is_cache else config.trees
    trees = open_trees(source) if source else None
    views = config.views.split(",") if config.views else None
    if config.dry_run:
        print(dry_run(config, encoder, texts, trees, views))
        return 0
    start = time.perf_counter()
    vectors = encoder.encode(
        texts,
        batch_size=config.batch_size,
        normalize_embeddings=config.normalize,
        views=views,
        trees=trees,
    )
    seconds = time.perf_counter() - start
    _write(output, np.asarray(vectors), config)
    print(f"vectors  {output}: {vectors.shape[0]} x {vectors.shape[1]} float32")
    print(f"speed    {len(vectors) / max(seconds, 1e-9):.0f} sentences/s")
    return 0


def dry_run(
    config: Any,
    encoder: MultiViewEncoder,
    texts: list[str] | None,
    trees: TreeCache | None,
    views: list[str] | None,
    *,
    stored: bool = True,
) -> str:
    """What encoding a corpus would take, from some of its sentences.

    Args:
        config: options of the command, with ``batch_size``.
        encoder: the model.
        texts: the sentences; None when ``trees`` holds them.
        trees: tree cache.
        views: which views; None is all.
        stored: whether the command writes the vectors.
    """
    import torch

    from corpora.support.dry_run import Work, dry_run_text, rate
    from multiview.training.network import parameter_counts

    total = len(texts if texts is not None else trees or ())
    shown = min(total, CALIBRATION_SENTENCES)
    chosen = [] if texts is None else texts[:: max(1, total // max(shown, 1))]

    def encode(part: range) -> int:
        if texts is None and trees is not None:
            with torch.inference_mode():
                encoder.vectors(encoder.reader.from_cache(trees, part.start, part.stop, encoder.requires))
        else:
            some = chosen[part.start : part.stop]
            encoder.encode(some, batch_size=config.batch_size, views=views, show_progress_bar=False)
        return len(part)

    step = max(shown // 4, 1)
    parts = [range(start, min(start + step, shown)) for start in range(0, shown, step)]
    size = encoder.encode([], views=views).shape[1]
    counts = [parameter_counts(member.network) for member in encoder.members]
    return dry_run_text(
        config,
        facts={"vectors": f"{total:,} x {size} float32"},
        parameters={f"{name} of member {i}": n for i, c in enumerate(counts) for name, n in c.items()},
        disk_bytes=4.0 * total * size if stored else 0,
        work=[Work(name="encode", units=total, unit="sentences", per_s=rate(encode, parts))],
    )


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file without their ends.

    Raises:
        UserError: no such file, or bytes that are not UTF-8; the line is named.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; give a text file with one sentence per line, or a tree cache")
    lines = path.read_bytes().split(b"\n")
    texts = []
    for number, line in enumerate(lines[:-1] if lines[-1] == b"" else lines, start=1):
        try:
            texts.append(line.rstrip(b"\r").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(f"{path}, line {number}: not UTF-8 at byte {error.start}; convert it") from None
    if not texts:
        raise UserError(f"{path}: empty; give a text file with one sentence per line, or a tree cache")
    return texts


def _write(output: Path, vectors: Any, config: EncodeConfig) -> None:
    import h5py
    import numpy as np

    with atomic_path(output) as temporary:
        if output.suffix == ".npy":
            with open(temporary, "wb") as stream:
                np.save(stream, vectors)
        else:
            with h5py.File(temporary, "w", libver="v110") as file:
                file.create_dataset("embeddings", data=vectors, track_times=False)
    write_json(Path(f"{output}.json"), config_to_json(config))


cli = Command(
    EncodeConfig,
    main,
    "multiview.encode",
    "Vectors of the sentences of a file or tree cache.",
    kept="nothing was written",
)


if __name__ == "__main__":
    sys.exit(cli())
