"""Encodes many sentences with a loaded model, in one process or in several.

:class:`EncodeOptions` checks the arguments of a call, and :class:`EncodingJob` holds all that a worker
process needs to encode a part of the sentences.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.encoders.batch_encoder import BatchEncoder, check_finite, encoder_of_views
from multiview.encoders.meaning import Readout, Scale
from multiview.encoders.registry import ViewStack
from multiview.folder.reading import SentenceReader, Tokens
from multiview.model_config import VectorKind
from multiview.structure.joining import encoder_of_structure, joined_encoder
from runtime.cli import warn_once
from runtime.device import chosen_threads, torch_threads, with_torch_defaults
from runtime.errors import UserError, check_count
from runtime.pool import ADVICE, LocalPool
from runtime.process import pause_collector
from runtime.products import products_in
from runtime.progress import progress

if TYPE_CHECKING:
    from parsing.trees.cache import TreeCache

ENCODE_BATCH = 512
"""The batch size. In a larger batch more words occur twice, and each word is computed once a batch."""
FEW_SENTENCES = 200
"""A call with fewer sentences is computed by one thread."""
PART_SENTENCES = 1024
"""The number of sentences that a worker process encodes at a time."""
MIN_SENTENCES_FOR_ENCODING_WORKERS = 4096
"""A call with fewer sentences starts no worker processes, because starting them would take longer."""
NEUTRAL_ARGUMENTS: Mapping[str, tuple[object, ...]] = {
    "prompt": (None, ""),
    "prompt_name": (None,),
    "precision": (None, "float32"),
    "output_value": ("sentence_embedding",),
    "convert_to_numpy": (True, False),
    "pool": (None,),
    "chunk_size": (None,),
}
"""Arguments of sentence-transformers' ``encode``, each with the values that are accepted and ignored."""


@dataclass(frozen=True, kw_only=True)
class EncodeOptions:
    """The arguments that all methods that return vectors share; an instance can be pickled.

    :meth:`multiview.model.MultiViewEncoder.encode` describes them.
    """

    batch_size: int = ENCODE_BATCH
    show_progress_bar: bool | None = None
    convert_to_tensor: bool = False
    device: Any = None
    normalize_embeddings: bool = False
    trees: TreeCache | None = None
    truncate_dim: int | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        counts = {"batch_size": self.batch_size, "workers": self.workers}
        if self.truncate_dim is not None:
            counts["truncate_dim"] = self.truncate_dim
        for name, count in counts.items():
            check_count(count, f"encode: {name}")
        if self.trees is not None and not hasattr(self.trees, "has"):
            raise UserError(f"encode: trees={self.trees!r:.60}: is no tree cache; TreeCache.open opens one")
        for name in ("convert_to_tensor", "normalize_embeddings"):
            flag = getattr(self, name)
            if not isinstance(flag, bool | np.bool_ | int | None):
                raise UserError(f"encode: {name}={flag!r:.60}: must be True or False")

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """Return a call's options. Raises UserError for others that are not in :data:`NEUTRAL_ARGUMENTS`."""
        names = {field.name for field in fields(cls)}
        for name, value in arguments.items():
            neutral_values = [(type(neutral), neutral) for neutral in NEUTRAL_ARGUMENTS.get(name, ())]
            if name not in names and (type(value), value) not in neutral_values:
                raise UserError(f"encode: {name}={value!r} has no meaning for this model; leave it out")
        return cls(**{name: value for name, value in arguments.items() if name in names})


@dataclass(frozen=True)
class EncodingJob:
    """A network, its parsers and the kind of vectors that they compute; an instance can be pickled."""

    name: str
    """The name of the model, for messages."""
    network: ViewStack
    reader: SentenceReader
    kind: VectorKind
    positions: Sequence[int]
    """The positions, in the network, of the views that are encoded."""
    options: EncodeOptions
    structure: float = 0.0
    """λ, the share of structure; only used for meanings."""
    structure_size: int = 1024

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return torch.device(self.reader.device)

    def batch_encoder(self) -> BatchEncoder:
        """Return the encoder of this kind of vectors; they are cut after ``truncate_dim`` numbers."""
        network, dim = self.network, self.options.truncate_dim
        transform: Readout | Scale | None = network.readout if self.kind == "meaning" else None
        if self.kind == "features" and network.scale is not None:
            transform = network.scale_of(self.positions)
        batch_encoder = encoder_of_views(network, self.positions, transform, dim)
        if self.kind != "meaning" or not self.structure:
            return batch_encoder
        if dim is not None:
            size = f"{self.structure_size:,} numbers of structure stay"
            warn_once(f"truncate_dim={dim} cuts the meaning; {size}")
        structure_encoder = encoder_of_structure(network.words, self.structure_size)
        return joined_encoder(batch_encoder, structure_encoder, self.structure)

    @with_torch_defaults()
    def encode(self, texts: Sequence[str | Tokens] | None) -> Tensor:
        """Return the vectors [n, width] of sentences, or of a whole tree cache, computed in this process."""
        batch_encoder, options, device = self.batch_encoder(), self.options, self.device
        total = len(texts if texts is not None else options.trees or ())
        vectors = torch.zeros(total, batch_encoder.width, device=device, dtype=torch.float32)
        dim = self.network.config.dim
        threads = chosen_threads(options.batch_size, dim, device) if total >= FEW_SENTENCES else 1
        batches = self.reader.batches(texts, batch_encoder.requires, options.trees, options.batch_size)
        progress_bar = progress(total=total, description="encode", show=options.show_progress_bar)
        # The first sentence imports a tokenizer, parsers and compiled loops, which makes many objects.
        collector = pause_collector() if total < FEW_SENTENCES else contextlib.nullcontext()
        # Parsing runs in one thread, because it has no large matrix products.
        in_products = products_in(self.reader.products)
        with torch.inference_mode(), torch_threads(1), in_products, progress_bar as bar, collector:
            for rows, batch in batches:
                with torch_threads(threads):
                    vectors_BD = batch_encoder.encode(batch)
                check_finite(vectors_BD, batch, rows, self.name)
                vectors[torch.from_numpy(rows).to(device)] = vectors_BD
                bar.update(len(rows))
        return vectors


def vectors_of(job: EncodingJob, texts: Sequence[str | Tokens] | None) -> Tensor:
    """Return the vectors [n, width] of sentences, or of a whole tree cache.

    Worker processes compute those of many sentences if the options ask for more than one worker on a CPU.
    """
    is_long = texts is not None and len(texts) >= MIN_SENTENCES_FOR_ENCODING_WORKERS
    if job.options.workers > 1 and is_long and texts is not None and job.device.type == "cpu":
        return torch.from_numpy(encode_by_processes(job, texts))
    return job.encode(texts)


class PartEncoder:
    """Encodes parts of the sentences in a worker process."""

    def __init__(self, job: EncodingJob) -> None:
        self.job = job

    def describe(self) -> None:
        """Load parsers and compiled loops before the first part."""
        self.encode(["."])

    def encode(self, texts: Sequence[str | Tokens]) -> NDArray[np.float32]:
        """Return the vectors of sentences, float32 [n, D]."""
        vectors: NDArray[np.float32] = self.job.encode(texts).numpy()
        return vectors


def encode_by_processes(
    job: EncodingJob, texts: Sequence[str | Tokens], make_worker: Callable[[EncodingJob], Any] = PartEncoder
) -> NDArray[np.float32]:
    """Return the vectors of sentences, float32 [n, D], computed part by part in worker processes.

    Raises UserError if a worker process dies, for instance because memory is short.
    """
    options, blocks = job.options, []
    job = replace(job, options=replace(options, workers=1, show_progress_bar=False))
    parts = [texts[first : first + PART_SENTENCES] for first in range(0, len(texts), PART_SENTENCES)]
    bar = progress(total=len(texts), description="encode", show=options.show_progress_bar)
    with LocalPool(make_worker, job, min(options.workers, len(parts))) as pool, bar:
        futures = [pool.submit("encode", part) for part in parts]
        for part, future in zip(parts, futures, strict=True):
            try:
                blocks.append(future.result())
            except BrokenExecutor:
                raise UserError(f"encode: one of {options.workers} workers died; {ADVICE}") from None
            bar.update(len(part))
    return np.concatenate(blocks)
