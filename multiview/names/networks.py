"""Networks behind names: pre-trained transformers, and encoders whose weights stay as they were drawn.

The latter are what training has to beat. ``random:VIEWS`` are views with plain random weights, the control of
the papers (MV, table 3); ``random:lstm`` a bidirectional LSTM, the maximum over its words (Wieting & Kiela
2019). ``start:MODEL`` is a model of ``multiview.train`` before its first step, with its own vocabulary,
initial weighting and seed.

Legend of dimension suffixes: n sentences, N words of a batch, G word-vector size, D sentence vector.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from multiview.config import TrainConfig
from multiview.folder.files import Member, ModelRecord, model_folder, model_records
from multiview.model import MultiViewEncoder
from multiview.pretrained import Float, one_line, quiet, say_where
from multiview.words.table import Vocabulary, WordTable
from multiview.words.vectors import load_word_vectors
from parsing.trees.cache import TreeCache
from runtime.cli import config_from_json
from runtime.device import pick_device
from runtime.errors import UserError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

WORD_DIM, BATCH = 128, 128


def load_pretrained(backbone: str, *, whole: bool = False, **options: Any) -> Any:
    """Load the transformer of a name or a folder, or with ``whole`` all of a sentence-transformers model.

    Safetensors only: the older .bin weights are pickle. No code of the folder is run.

    Raises:
        UserError: nothing loadable is found under that name.
    """
    quiet()
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer

    advice = "give a folder with safetensors weights, a name when the machine is online, or tiny"
    # Weights that the folder lacks (BERT's pooler, unused here) are drawn at random: two loads would differ
    # in them, and so would the saved files.
    with one_line(f"backbone {backbone!r} cannot be loaded", advice), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        say_where(backbone)
        ours = {"trust_remote_code": False}  # the default None asks, and runs the folder's code after "y"
        return (SentenceTransformer if whole else Transformer)(
            backbone,
            model_kwargs={"use_safetensors": True, **ours},
            config_kwargs=ours,
            processor_kwargs=ours,
            **options,
        )


def assemble(transformer: nn.Module, pooling: str) -> SentenceTransformer:
    """Join transformer and pooling (``mean``, ``cls``, ``max``) as sentence-transformers does, on the CPU."""
    from sentence_transformers import SentenceTransformer

    width: int = transformer.get_embedding_dimension()  # type: ignore[operator]
    return SentenceTransformer(modules=[transformer, pooling_module(width, pooling)], device="cpu")


def pooling_module(width: int, mode: str) -> nn.Module:
    """Make the pooling of pieces [B, T, D] to [B, D], D = ``width``; mode: ``mean``, ``cls`` or ``max``."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    result: nn.Module = Pooling(width, mode)
    return result


def fixed_words(file: str) -> WordTable | None:
    """Return the vectors of a file as a table that any encoder reads; None without a file."""
    if not file:
        return None
    loaded = load_word_vectors(Path(file))
    return WordTable.with_fixed(Vocabulary(loaded.words), loaded.vectors)


class RandomLSTM:
    """A bidirectional LSTM, h = ``dim`` / 2 units each way; weights uniform in ±1/√h, as torch draws them."""

    def __init__(self, dim: int, words: WordTable | None, seed: int, device: str | None) -> None:
        words = words or WordTable.hashed(WORD_DIM, views=1, seed=seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            lstm = nn.LSTM(words.dim, dim // 2, bidirectional=True)
        chosen = pick_device(device)
        self.words, self.lstm = words.to(chosen), lstm.to(chosen)

    @torch.inference_mode()
    def encode(self, sentences: Sequence[str | Sequence[str]]) -> Float:
        """Give vectors [n, D] of strings (split at white space) or token lists, of like length at a time."""
        tokens = [sentence.split() if isinstance(sentence, str) else list(sentence) for sentence in sentences]
        order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
        vectors = np.zeros((len(tokens), 2 * self.lstm.hidden_size), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            vectors[rows] = self._maxima([tokens[row] or ["."] for row in rows]).cpu().numpy()
        return vectors

    def _maxima(self, batch: Sequence[Sequence[str]]) -> Tensor:
        """Give per dimension the largest state, [len(batch), D], of sentences by falling length."""
        rows = self.words.vocabulary.lookup([word for sentence in batch for word in sentence])
        x_NG = self.words.rows(0, rows)
        inputs = pack_sequence(list(x_NG.split([len(sentence) for sentence in batch])))
        states, _ = pad_packed_sequence(self.lstm(inputs)[0], padding_value=float("-inf"))
        return states.max(dim=0).values


def load_start(model: Path | str, corpus: Path, device: str | torch.device | None = None) -> MultiViewEncoder:
    """Return a model as it was before its first step.

    The weights are not stored: they are made again as ``multiview.train`` made them, from the configuration
    in the folder and the tree cache, whose word counts decide vocabulary and initial weighting.

    Raises:
        UserError: the model was not trained on this cache, or not by ``multiview.train``.
    """
    folder, trees = model_folder(model), TreeCache.open(corpus)
    return MultiViewEncoder(
        [_start(folder / name, record, trees) for name, record in model_records(folder).items()],
        device=pick_device(device),
        name=f"start:{Path(model).name}",
    )


def training_trees(folder: Path) -> Path | None:
    """Find the tree cache of a model's training, as named then or in ``runs/trees``; None: it is gone."""
    records = model_records(folder).values()
    named: list[Path] = []
    for record in records:
        with contextlib.suppress(UserError):  # not of multiview.train
            config = config_from_json(TrainConfig, record.training.get("config"), where=folder)
            named += [] if config.trees is None else [config.trees]
    for place in [*named, *sorted(Path("runs/trees").glob("*"))]:
        with contextlib.suppress(UserError):  # no cache, or an unfinished one
            content = TreeCache.open(place).identity.get("content_sha256")
            if all(record.training.get("trees") == content for record in records):
                return place
    return None


def _start(folder: Path, record: ModelRecord, trees: TreeCache) -> Member:
    """Return one model's network, made by what makes it for training."""
    from multiview.training.trainer import Trainer

    values = record.training.get("config")
    if values is None:
        raise UserError(f"{folder}: has no record of multiview.train, so its start cannot be made again")
    if record.training.get("trees") != trees.identity.get("content_sha256"):
        raise UserError(f"{trees.folder}: is not the tree cache that {folder} was trained on")
    config = config_from_json(TrainConfig, values, where=folder / "config.json")
    with torch.random.fork_rng(devices=[]):
        untaught = dataclasses.replace(
            config.objective, teacher=None
        )  # it draws its weights after all others
        trainer = Trainer(dataclasses.replace(config, device="cpu", objective=untaught), trees)
        network = trainer.kept_network(beside=len(record.views) > len(config.view_list))
    return Member(network, dict(record.parsers), record.corpus)
