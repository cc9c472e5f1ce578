"""Pre-trained sentence encoders by name or folder, as sentence-transformers loads them.

None of their code is run, and of their files only those are downloaded that hold no code.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpora.sentences import described
from runtime.errors import MissingExtraError, UserError, out_of_memory, out_of_space

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor, nn

Float = NDArray[np.float32]
Encode = Callable[[Sequence[Any]], Any]
"""Sentences to an array or tensor [n, D], or [K, n, D]."""
DOWNLOADED = ["*.json", "*.safetensors", "*.txt", "*.model", "README.md"]


def load_pretrained(name: str, *, all_modules: bool = False, **options: Any) -> Any:
    """Load the transformer of a name or folder; with ``all_modules`` the whole sentence-transformers model.

    Safetensors only: the older .bin weights are pickle. No code of the folder is run. What cannot be loaded
    is a UserError.
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
        if not Path(name).exists() and not isinstance(
            try_to_load_from_cache(_at_hub(name), "config.json"), str
        ):
            print(f"model {name!r}: not here; looked up at huggingface.co", file=sys.stderr, flush=True)
        ours = {"trust_remote_code": False}  # the default None asks, and runs the folder's code after "y"
        return (SentenceTransformer if all_modules else Transformer)(
            name,
            model_kwargs={"use_safetensors": True, **ours},
            config_kwargs=ours,
            processor_kwargs=ours,
            **options,
        )


def assemble(transformer: nn.Module, pooling: str) -> SentenceTransformer:
    """Join transformer and pooling (``mean``, ``cls``, ``max``) as sentence-transformers does, on the CPU."""
    from sentence_transformers import SentenceTransformer

    pool = pooling_module(transformer.get_embedding_dimension(), pooling)  # type: ignore[operator]
    return SentenceTransformer(modules=[transformer, pool], device="cpu")


def pooling_module(width: int, mode: str) -> nn.Module:
    """Make the pooling of pieces [B, T, D] to [B, D], D = ``width``; mode: ``mean``, ``cls`` or ``max``."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    result: nn.Module = Pooling(width, mode)
    return result


def encode_texts(model: SentenceTransformer, name: str, texts: Sequence[str], batch_size: int) -> Float:
    """Encode texts to vectors [n, d]; a model whose files do not fit each other is a UserError."""
    with report_in_one_line(f"model {name!r}: cannot encode; its files do not fit each other"):
        vectors = model.encode(list(texts), batch_size=batch_size, show_progress_bar=False)
    rows: Float = check_vectors(vectors, texts, f"model {name!r}")[0]
    return rows


def check_encoder(encoder: Any, caller: str) -> None:
    """Refuse what has no ``encode(sentences)``; the message names the ``caller``."""
    if isinstance(encoder, str | type) or not callable(getattr(encoder, "encode", None)):
        raise UserError(f"{caller}: {described(encoder)} has no encode(sentences)")


def check_vectors(
    output: Any, sentences: Sequence[object], name: str, dim: int | None = None, columns: int = 1
) -> Float:
    """Check what an encoder returned of n sentences, [n, D] or [K, n, D]: float32 [K, n, D] on the host.

    It may be anything that numpy reads, tensors too; ``dim`` is D where it is known, ``columns`` K. Another
    shape, or a sentence whose numbers are not finite, is named in a UserError.
    """
    vectors, n = _array(output, f"{name}: encode() returned a {type(output).__name__}"), len(sentences)
    shaped = vectors.ndim > 1 and vectors.shape[-1] and vectors.shape[:-1] in ((n,), (columns, n))
    if not shaped or vectors.dtype.kind not in "fiu" or dim not in (None, vectors.shape[-1]):
        raise UserError(
            f"{name}: encode() returned {vectors.dtype} {list(vectors.shape)} for {n} sentences; "
            f"expected numbers [sentences, {dim or 'dimensions'}]"
        )
    with np.errstate(over="ignore"):
        rows: Float = np.require(vectors, np.float32, ["C", "W"]).reshape(-1, n, vectors.shape[-1])
    finite = np.isfinite(rows).all(axis=(0, 2))
    if not finite.all():
        raise UserError(
            f"{name}: encode() returned NaN or infinity for {int((~finite).sum())} of {n} sentences, first "
            f"{str(sentences[int(np.argmin(finite))])[:80]!r}"
        )
    return rows


def unit_rows(rows: Float) -> Float:
    """Return the rows at length 1, however long they are; a zero row stays zero."""
    scaled = rows / np.maximum(np.abs(rows).max(axis=1, keepdims=True, initial=0), 1e-12)
    unit: Float = scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12)
    return unit


def read_vectors(value: Any, caller: str) -> Tensor:
    """Return the vectors that a caller gave, [n, D] or one [D], as float32 [n, D] on their device.

    What are no finite numbers of that shape is a UserError.
    """
    import torch

    if not isinstance(value, torch.Tensor):
        array = _array(value, f"{caller}: a {type(value).__name__}")
        value = torch.from_numpy(array.astype(np.float32)) if array.dtype.kind in "fiu" else array
    if not isinstance(value, torch.Tensor) or value.is_complex() or not 1 <= value.ndim <= 2:
        raise UserError(f"{caller}: {described(value)} is no array of numbers [vectors, dimensions]")
    vectors: Tensor = torch.atleast_2d(value).float()
    if not (finite := torch.isfinite(vectors).all(dim=1)).all():
        raise UserError(f"{caller}: vector {int(finite.int().argmin())} has NaN or infinity")
    return vectors


def _array(value: Any, what: str) -> NDArray[Any]:
    """Read anything that numpy reads, and tensors in lists."""

    def on_host(part: Any) -> Any:
        return part.detach().cpu().float().numpy() if hasattr(part, "detach") else part

    with report_in_one_line(f"{what} that is no array"):
        return np.asarray([*map(on_host, value)] if isinstance(value, list | tuple) else on_host(value))


@contextlib.contextmanager
def report_in_one_line(message: str, advice: str = "") -> Iterator[None]:
    """Report what a library's loader raises in one line: a broken folder makes it raise errors of any type.

    The UserError has the message, the first line of the library's error in brackets, then the advice.
    """
    try:
        yield
    except Exception as error:
        if out_of_memory(error) or out_of_space(error):
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{message} ({first})" + (f"; {advice}" if advice else "")) from None


def encoder_folder(name: str) -> Path:
    """Find out where a model lies: ``name`` if that is a folder, else its copy from the Hugging Face hub."""
    folder = Path(name)
    if not folder.is_dir():
        silence_libraries()
        from huggingface_hub import snapshot_download

        with report_in_one_line(f"model {name!r}: neither a folder here nor a model of the Hugging Face hub"):
            folder = Path(snapshot_download(_at_hub(name), allow_patterns=DOWNLOADED))
    if not any(folder.rglob("*.safetensors")):
        raise UserError(f"{folder}: no model here (no .safetensors file)")
    return folder


def _at_hub(name: str) -> str:
    """Return a model's full name, as sentence-transformers reads it."""
    return name if "/" in name else f"sentence-transformers/{name}"


def silence_libraries() -> None:
    """Switch off the progress bars of sentence-transformers, which must be there, and of its libraries."""
    try:
        import sentence_transformers  # noqa: F401
        from huggingface_hub.utils.tqdm import disable_progress_bars
        from transformers.utils import logging
    except ImportError:
        raise MissingExtraError("sentence-transformers", "burt") from None
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    disable_progress_bars()
