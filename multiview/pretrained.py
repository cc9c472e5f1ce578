"""Pre-trained sentence encoders by name or folder, as sentence-transformers loads them.

None of their code is run, and only files without code are downloaded. Here, too, is checked what encoders of
others return.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpora.sentences import describe_value
from runtime.errors import UserError, extra, out_of_memory, out_of_space

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor, nn

Float = NDArray[np.float32]
Encode = Callable[[Sequence[Any]], Any]
"""Encodes sentences to an array or tensor [n, D], or [K, n, D]."""
DOWNLOAD_PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "README.md"]


def load_pretrained(name: str, *, all_modules: bool = False, **options: Any) -> Any:
    """Load the transformer of a name or folder; with ``all_modules`` the whole sentence-transformers model.

    It reads safetensors only, for the older .bin weights are pickle, and runs no code of the folder. A model
    that cannot be loaded is a UserError.
    """
    silence_libraries()
    import torch
    from huggingface_hub import try_to_load_from_cache
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer

    message = f"model {name!r}: neither a file or folder here nor a sentence-transformers model"
    advice = "give a folder with safetensors weights, or a name when the machine is online"
    # Weights that the folder lacks (BERT's pooler, unused here) are drawn at random: two loads would differ
    # in them, and so would the saved files.
    with report_in_one_line(message, advice), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if not Path(name).exists():
            cached_file = try_to_load_from_cache(_name_at_hub(name), "config.json")
            if not isinstance(cached_file, str):
                print(f"model {name!r}: not here; looked up at huggingface.co", file=sys.stderr, flush=True)
        no_code = {"trust_remote_code": False}  # the default None asks, and runs the folder's code after "y"
        return (SentenceTransformer if all_modules else Transformer)(
            name,
            model_kwargs={"use_safetensors": True, **no_code},
            config_kwargs=no_code,
            processor_kwargs=no_code,
            **options,
        )


def assemble(transformer: nn.Module, pooling: str) -> SentenceTransformer:
    """Join a transformer and a pooling (``mean``, ``cls``, ``max``) to a model on the CPU."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    pool = Pooling(transformer.get_embedding_dimension(), pooling)  # type: ignore[operator]
    return SentenceTransformer(modules=[transformer, pool], device="cpu")


def encode_texts(model: SentenceTransformer, name: str, texts: Sequence[str], batch_size: int) -> Float:
    """Encode texts to vectors [n, d]; a model whose files do not fit each other is a UserError."""
    with report_in_one_line(f"model {name!r}: cannot encode; its files do not fit each other"):
        vectors = model.encode(list(texts), batch_size=batch_size, show_progress_bar=False)
    rows: Float = check_vectors(vectors, texts, f"model {name!r}")[0]
    return rows


def check_encoder(encoder: Any, caller: str) -> None:
    """Refuse an object without ``encode(sentences)``; the message names the ``caller``."""
    if isinstance(encoder, str | type) or not callable(getattr(encoder, "encode", None)):
        raise UserError(f"{caller}: {describe_value(encoder)} has no encode(sentences)")


def check_vectors(
    output: Any, sentences: Sequence[object], name: str, dim: int | None = None, columns: int = 1
) -> Float:
    """Return the vectors that an encoder made of n sentences, as float32 [K, n, D] on the host.

    ``output`` is [n, D] or [K, n, D], in anything that numpy reads, tensors too; ``dim`` is D where it is
    known, ``columns`` is K. A UserError names another shape, or a sentence whose numbers are not finite.
    """
    vectors, n = _to_array(output, f"{name}: encode() returned a {type(output).__name__}"), len(sentences)
    fits_sentences = vectors.ndim > 1 and vectors.shape[-1] and vectors.shape[:-1] in ((n,), (columns, n))
    if not fits_sentences or vectors.dtype.kind not in "fiu" or dim not in (None, vectors.shape[-1]):
        raise UserError(
            f"{name}: encode() returned {vectors.dtype} {list(vectors.shape)} for {n} sentences; "
            f"expected numbers [sentences, {dim or 'dimensions'}]"
        )
    with np.errstate(over="ignore"):
        rows: Float = np.require(vectors, np.float32, ["C", "W"]).reshape(-1, n, vectors.shape[-1])
    is_finite = np.isfinite(rows).all(axis=(0, 2))
    if not is_finite.all():
        raise UserError(
            f"{name}: encode() returned NaN or infinity for {int((~is_finite).sum())} of {n} sentences, "
            f"first {str(sentences[int(np.argmin(is_finite))])[:80]!r}"
        )
    return rows


def unit_rows(rows: Float) -> Float:
    """Scale rows of any length to length 1; a zero row stays zero."""
    least, most = (statistic(axis=1, keepdims=True, initial=0) for statistic in (rows.min, rows.max))
    unit: Float = rows / np.maximum(np.maximum(most, -least), 1e-12)
    length = np.sqrt(np.add.reduce(unit * unit, axis=1, keepdims=True))  # as np.linalg.norm, but no copies
    unit /= np.maximum(length, 1e-12)
    return unit


def read_vectors(value: Any, caller: str) -> Tensor:
    """Return a caller's vectors, [n, D] or one [D], as float32 [n, D] on their device; refuse others."""
    import torch

    if not isinstance(value, torch.Tensor):
        array = _to_array(value, f"{caller}: a {type(value).__name__}")
        value = torch.from_numpy(array.astype(np.float32)) if array.dtype.kind in "fiu" else array
    if not isinstance(value, torch.Tensor) or value.is_complex() or not 1 <= value.ndim <= 2:
        raise UserError(f"{caller}: {describe_value(value)} is no array of numbers [vectors, dimensions]")
    vectors: Tensor = torch.atleast_2d(value).float()
    is_finite = torch.isfinite(vectors).all(dim=1)
    if not is_finite.all():
        raise UserError(f"{caller}: vector {int(is_finite.int().argmin())} has NaN or infinity")
    return vectors


def _to_array(value: Any, subject: str) -> NDArray[Any]:
    """Read anything that numpy reads, and tensors in lists; ``subject`` begins the message of an error."""

    def to_host(value: Any) -> Any:
        return value.detach().cpu().float().numpy() if hasattr(value, "detach") else value

    with report_in_one_line(f"{subject} that is no array"):
        return np.asarray([*map(to_host, value)] if isinstance(value, list | tuple) else to_host(value))


@contextlib.contextmanager
def report_in_one_line(message: str, advice: str = "") -> Iterator[None]:
    """Turn a library's error into a UserError: message, first line of the error in brackets, advice."""
    try:
        yield
    except Exception as error:
        if out_of_memory(error) or out_of_space(error):
            raise
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{message} ({first_line})" + (f"; {advice}" if advice else "")) from None


def encoder_folder(name: str) -> Path:
    """Return the folder of a model: ``name`` if that is one, else its copy from the Hugging Face hub."""
    folder = Path(name)
    if not folder.is_dir():
        silence_libraries()
        from huggingface_hub import snapshot_download

        with report_in_one_line(f"model {name!r}: neither a folder here nor a model of the Hugging Face hub"):
            folder = Path(snapshot_download(_name_at_hub(name), allow_patterns=DOWNLOAD_PATTERNS))
    if not any(folder.rglob("*.safetensors")):
        raise UserError(f"{folder}: no model here (no .safetensors file)")
    return folder


def _name_at_hub(name: str) -> str:
    """Return a model's full name at the hub, by the rules of sentence-transformers."""
    return name if "/" in name else f"sentence-transformers/{name}"


def silence_libraries() -> None:
    """Switch off the progress bars of sentence-transformers and its libraries, which must be installed."""
    with extra("burt", "sentence-transformers"):
        import sentence_transformers  # noqa: F401
        from huggingface_hub.utils.tqdm import disable_progress_bars
        from transformers.utils import logging
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    disable_progress_bars()
