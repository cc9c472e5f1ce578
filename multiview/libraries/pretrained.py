"""Loads pretrained sentence encoders of sentence-transformers, by name or from a folder.

No code of a model is run, and only files without code are downloaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiview.libraries.arrays import Float, check_vectors, report_in_one_line
from runtime.errors import UserError, extra

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

Encode = Callable[[Sequence[Any]], Any]
"""Returns the vectors of sentences as an array or tensor [n, D], or [K, n, D]."""
DOWNLOAD_PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "README.md"]


def load_pretrained(name: str, *, all_modules: bool = False, **options: Any) -> Any:
    """Load the transformer of a name or folder, or the whole sentence-transformers model if ``all_modules``.

    Only safetensors are read, because the older .bin weights are pickle, and no code of the folder is run.
    Raises UserError if the model cannot be loaded.
    """
    silence_libraries()
    import torch
    from huggingface_hub import try_to_load_from_cache
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer

    message = f"model {name!r}: neither a file or folder here nor a sentence-transformers model"
    advice = "give a folder with safetensors weights, or a name when the machine is online"
    # Weights that the folder lacks (BERT's pooler, unused here) are drawn at random. The seed makes them
    # the same in each load, and so in saved files.
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
    """Return a model on the CPU: a transformer and a pooling, ``mean``, ``cls`` or ``max``."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    pool = Pooling(transformer.get_embedding_dimension(), pooling)  # type: ignore[operator]
    return SentenceTransformer(modules=[transformer, pool], device="cpu")


def encode_texts(model: SentenceTransformer, name: str, texts: Sequence[str], batch_size: int) -> Float:
    """Return the vectors of texts, float32 [n, D]. Raises UserError if the model's files do not match."""
    with report_in_one_line(f"model {name!r}: cannot encode; its files do not fit each other"):
        vectors = model.encode(list(texts), batch_size=batch_size, show_progress_bar=False)
    rows: Float = check_vectors(vectors, texts, f"model {name!r}")[0]
    return rows


def encoder_folder(name: str) -> Path:
    """Return the folder ``name`` or, if there is none, the downloaded model of that name at the hub."""
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
    """Return the full name of a model at the hub; one without an owner belongs to sentence-transformers."""
    return name if "/" in name else f"sentence-transformers/{name}"


def silence_libraries() -> None:
    """Switch off the progress bars of sentence-transformers. Raises UserError if it is not installed."""
    with extra("burt", "sentence-transformers"):
        import sentence_transformers  # noqa: F401
        from huggingface_hub.utils.tqdm import disable_progress_bars
        from transformers.utils import logging
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    disable_progress_bars()
