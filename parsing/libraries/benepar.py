"""benepar's models with our inference (our weights in its classes: :mod:`tests.oracles.benepar`).

:class:`BeneparParser` runs any benepar model (char-LSTM or pretrained transformer) with identical trees:
word types are encoded once, sentences batched by length, spans scored and decoded as in
:mod:`parsing.constituency.model`.

benepar 0.2.0 predates today's libraries. Two things are fixed here: tokenizers of transformers 5 get back
``build_inputs_with_special_tokens``, and words that are blank or that a tokenizer drops, on which benepar
crashes, are read as ``-``. A sentence longer than a model takes raises ``ValueError``.

Shapes: B sentences, T positions (both boundaries included), D encoder output, U word types.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from benepar.integrations.downloader import BENEPAR_SERVER_INDEX, locate_model
from benepar.integrations.nltk_plugin import guess_language
from benepar.nkutil import HParams
from benepar.parse_chart import ChartParser
from benepar.ptb_unescape import guess_space_after
from torch import Tensor
from torch.nn import functional as F
from transformers import dynamic_module_utils

from corpora.support.environment import environment
from corpora.support.errors import UserError
from corpora.support.files import sha256_file
from parsing.constituency.model import parse_states
from parsing.networks.device import DeviceParser, Stages
from parsing.networks.model_folder import CONFIG, VOCABULARY, ModelFolder
from parsing.trees.parsers import ConstituencyParse, check_tokens

VERSION = "0.2.0"
BLANK = "-"
"""Stands for a word that a model cannot read."""
MAX_TYPES = 60_000
"""Word types whose vectors are kept (of 512 floats: 120 MB)."""


class BeneparParser(DeviceParser):
    """A benepar model as a :class:`parsing.trees.parsers.ConstituencyParser`.

    Args:
        parser: benepar's model, on the CPU.
        identity: name, version and sha256 of the weights.
        batch_positions: padded positions run at once; None takes the device's default.
    """

    def __init__(
        self, parser: ChartParser, identity: dict[str, str], *, batch_positions: int | None = None
    ) -> None:
        super().__init__(parser, identity, batch_positions)
        self.parser = parser
        self._bfloat16 = False
        self.labels = _by_index(parser.label_vocab)
        self.tags = _by_index(parser.tag_vocab) if parser.f_tag is not None else ("UNK",)
        self._encoder: _Characters | _Transformer = (
            _Characters(parser)
            if parser.char_encoder is not None
            else _Transformer(parser, guess_language(parser.label_vocab))
        )

    def reduce_precision(self) -> None:
        """Run the encoder under bfloat16 autocast."""
        self._bfloat16 = True

    def to(self, device: torch.device) -> None:
        """See :meth:`parsing.networks.device.DeviceParser.to`."""
        super().to(device)
        self._encoder.forget()

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ConstituencyParse]:
        """One parse per sentence, in order.

        Raises:
            ValueError: a sentence is longer than the model takes.
        """
        check_tokens(sentences)
        encoded = [self._encoder.encode(tokens) for tokens in sentences]
        positions = [len(tokens) + 2 for tokens in sentences]

        def start(members: list[int]) -> Stages[ConstituencyParse]:
            return self._parse_batch(
                [encoded[i] for i in members], torch.tensor([positions[i] for i in members])
            )

        return self.runner.run(positions, start)

    @torch.inference_mode()
    def _parse_batch(self, encoded: list[Any], positions_B: Tensor) -> Stages[ConstituencyParse]:
        with torch.autocast(self.runner.device.type, torch.bfloat16, enabled=self._bfloat16):
            states_BTD = self._states(encoded, positions_B).float()
        force = self.parser.decoder.force_root_constituent
        heads = self.parser.f_label, self.parser.f_tag
        return (yield from parse_states(*heads, states_BTD, positions_B, force=force))

    def _states(self, encoded: list[Any], positions_B: Tensor) -> Tensor:
        """The states that benepar's ``forward`` computes before the spans: [B, T, D]."""
        parser = self.parser
        positions_T = torch.arange(int(positions_B.max()))
        mask_BT = (positions_T < positions_B[:, None]).to(self.runner.device)
        content: Tensor = self._encoder.vectors(encoded, mask_BT)
        if parser.encoder is None:
            content = parser.project_pretrained(content)
            return content
        if isinstance(self._encoder, _Transformer):
            content = parser.project_pretrained(content)
        limit = parser.add_timing.timing_table.shape[0]
        if mask_BT.shape[1] > limit:
            raise ValueError(f"a sentence of {mask_BT.shape[1] - 2} words; the model takes {limit - 2}")
        states_BTD = parser.encoder(parser.add_timing(content), mask_BT)
        # Content and position alternate between the two halves of a fencepost.
        return torch.cat([states_BTD[..., 0::2], states_BTD[..., 1::2]], -1)


class _Characters:
    """benepar's character LSTM, run once per word type of all sentences so far."""

    def __init__(self, parser: ChartParser) -> None:
        self._parser = parser
        self.forget()

    def forget(self) -> None:
        """Start anew, on the device where the model is now."""
        self._rows: dict[str, int] = {}
        self._vectors = torch.zeros(0)
        self._boundaries = torch.zeros(0)

    def encode(self, tokens: Sequence[str]) -> list[str]:
        """Words as the model can read them."""
        return [token if token else BLANK for token in tokens]

    def vectors(self, encoded: list[list[str]], mask_BT: Tensor) -> Tensor:
        """Word vectors with the boundaries', [B, T, D/2], 0 in padding."""
        if len(self._rows) > MAX_TYPES:
            self.forget()
        self._meet(dict.fromkeys(word for words in encoded for word in words if word not in self._rows))
        rows = torch.tensor([self._rows[word] for words in encoded for word in words], device=mask_BT.device)
        content = self._vectors.new_zeros(*mask_BT.shape, self._vectors.shape[1])
        last_B = mask_BT.sum(1) - 1
        inner_BT = mask_BT.clone()
        inner_BT[:, 0] = False
        sentence_B = torch.arange(len(encoded), device=mask_BT.device)
        inner_BT[sentence_B, last_B] = False
        content[inner_BT] = self._vectors[rows]
        content[:, 0] = self._boundaries[0]
        content[sentence_B, last_B] = self._boundaries[1]
        return content

    def _meet(self, words: dict[str, None]) -> None:
        if not words:
            return
        # benepar's reader takes the words for a sentence and puts the two boundaries around it.
        retokenizer = self._parser.retokenizer
        batch = retokenizer.pad([retokenizer(list(words), return_tensors="np")], return_tensors="pt")
        device = next(self._parser.parameters()).device
        ids, mask = batch["char_ids"].to(device), batch["valid_token_mask"].to(device)
        vectors_UD = self._parser.char_encoder(ids, mask)[0]
        first = len(self._rows)
        self._rows.update(zip(words, range(first, first + len(words)), strict=True))
        self._boundaries = vectors_UD[[0, -1]]
        self._vectors = torch.cat([self._vectors, vectors_UD[1:-1]]) if first else vectors_UD[1:-1]


class _Transformer:
    """A pretrained transformer under benepar: sub-words in, the last sub-word's vector per word out."""

    def __init__(self, parser: ChartParser, language: str | None) -> None:
        self._parser = parser
        self._language = language
        self._readable: dict[str, bool] = {}

    def forget(self) -> None:
        """Nothing here is on a device."""

    def encode(self, tokens: Sequence[str]) -> Any:
        """Sub-word ids; words that the tokenizer drops are read as ``-``."""
        words = [token if self._is_readable(token) else BLANK for token in tokens]
        encoded = self._parser.retokenizer(words, spaces_after(words, self._language))
        if -100 in encoded["words_from_tokens"]:
            raise ValueError(f"the tokenizer drops a word of {' '.join(words)[:60]!r}")
        return encoded

    def vectors(self, encoded: list[Any], mask_BT: Tensor) -> Tensor:
        """Vectors of words and boundaries, [B, T, D], 0 in padding."""
        batch = self._parser.retokenizer.pad(encoded, return_tensors="pt")
        batch = {k: v.to(mask_BT.device) for k, v in batch.items() if isinstance(v, Tensor)}
        extra = {
            k: batch[k]
            for k in ("token_type_ids", "decoder_input_ids", "decoder_attention_mask")
            if k in batch
        }
        output = self._parser.pretrained_model(
            batch["input_ids"], attention_mask=batch["attention_mask"], **extra
        )
        features = output.last_hidden_state
        rows_B1 = torch.arange(len(encoded), device=mask_BT.device)[:, None]
        picked: Tensor = features[rows_B1, F.relu(batch["words_from_tokens"])]
        return picked.masked_fill(~mask_BT[:, :, None], 0)

    def _is_readable(self, token: str) -> bool:
        if token not in self._readable:
            if len(self._readable) > MAX_TYPES:
                self._readable.clear()
            ids = self._parser.retokenizer.tokenizer(token, add_special_tokens=False)["input_ids"]
            self._readable[token] = bool(token.strip()) and len(ids) > 0
        return self._readable[token]


def is_downloaded(name: str) -> bool:
    """Whether a model that benepar's authors publish is on this machine."""
    try:
        locate_model(name)
    except LookupError:
        return False
    return True


def load_benepar(name_or_path: str) -> BeneparParser:
    """A benepar model: a published name (downloaded before), a checkpoint file or a folder.

    Files are read without unpickling code (torch's ``weights_only``); a checkpoint that needs more is
    converted by ``python -m parsing.convert --trust-pickle``.

    Raises:
        UserError: no such model, or not a file of benepar's.
    """
    try:
        path = Path(locate_model(name_or_path))
    except LookupError:
        raise UserError(
            f"{name_or_path}: no such file, and no benepar model of that name is on this machine; "
            f"fetch one with python -c \"import benepar; benepar.download('{name_or_path}')\" "
            f"(it reads {BENEPAR_SERVER_INDEX})"
        ) from None
    try:
        # benepar calls torch's loader without saying that code must not run; the variable says it.
        with _special_tokens(), _no_questions(), environment(TORCH_FORCE_WEIGHTS_ONLY_LOAD="1"):
            parser = ChartParser.from_trained(str(path))
    except Exception as error:
        # torch, transformers and zip readers raise anything on foreign files.
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"{path}: benepar cannot read it ({reason})") from None
    return BeneparParser(
        parser, {"name": f"benepar-{path.name}", "version": VERSION, "sha256": _digest(path)}
    )


def from_checkpoint(data: Any, *, where: str) -> dict[str, Any]:
    """Configuration, vocabulary and tensors of a checkpoint that benepar's training wrote.

    Raises:
        UserError: not benepar's, or a model with a pretrained transformer.
    """
    try:
        config, tensors = data["config"], dict(data["state_dict"])
        hparams = config["hparams"]
        hparams = dict(hparams) if isinstance(hparams, dict) else hparams.to_dict()
        vocabulary = {key: dict(config[f"{name}_vocab"]) for key, name in _VOCABULARIES.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{where}: not a benepar checkpoint ({error!r})") from None
    if not hparams.get("use_chars_lstm"):
        raise UserError(f"{where}: uses a pretrained transformer; give the file itself as --const-model")
    return {"config": {"hparams": hparams}, "vocabulary": vocabulary, "tensors": tensors}


def from_folder(folder: ModelFolder) -> BeneparParser:
    """The parser of a checkpoint that was converted to a model folder.

    Raises:
        UserError: the folder does not fit benepar's model.
    """
    hparams = {"force_root_constituent": True, **folder.mapping(CONFIG, "hparams")}
    vocabularies = {f"{name}_vocab": folder.mapping(VOCABULARY, key) for key, name in _VOCABULARIES.items()}
    try:
        parser = folder.build(lambda: ChartParser(hparams=HParams(**hparams), **vocabularies))
    except (KeyError, AttributeError) as error:
        raise UserError(f"{folder.path}: not a converted benepar model ({error!r})") from None
    return BeneparParser(parser, folder.identity)


_VOCABULARIES = {"tags": "tag", "labels": "label", "characters": "char"}


def spaces_after(words: list[str], language: str | None) -> list[bool]:
    """Whether benepar's nltk front end takes each word to be followed by a space."""
    if language in ("zh", "ar", "he"):
        return [language != "zh"] * len(words)
    return list(guess_space_after(words))


def _by_index(vocabulary: dict[str, int]) -> tuple[str, ...]:
    """Names in the order of their indices; holes are named ``""``."""
    names = {i: name for name, i in vocabulary.items()}
    return tuple(names.get(i, "") for i in range(max(names) + 1))


def _digest(path: Path) -> str:
    """SHA-256 of a checkpoint, or over the files of a folder."""
    if path.is_file():
        return sha256_file(path)
    files = sorted(p for p in path.rglob("*") if p.is_file())
    text = "\n".join(f"{p.relative_to(path)} {sha256_file(p)}" for p in files)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _no_questions() -> Iterator[None]:
    """Refuse a folder's own code. benepar leaves transformers its default, to ask and run it after "y"."""
    kept = dynamic_module_utils.TIME_OUT_REMOTE_CODE
    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0
    try:
        yield
    finally:
        dynamic_module_utils.TIME_OUT_REMOTE_CODE = kept


@contextmanager
def _special_tokens() -> Iterator[None]:
    """Give tokenizers of transformers 5 the method that benepar calls while it loads."""
    base: Any = transformers.PreTrainedTokenizerBase
    if hasattr(base, "build_inputs_with_special_tokens"):
        yield
        return

    def build_inputs_with_special_tokens(self: Any, ids: list[int], _: Any = None) -> list[int]:
        """``ids`` between the special tokens that the tokenizer puts around a word."""
        example = self("a", return_special_tokens_mask=True)
        inner = [i for i, special in enumerate(example["special_tokens_mask"]) if not special]
        return [*example["input_ids"][: inner[0]], *ids, *example["input_ids"][inner[-1] + 1 :]]

    base.build_inputs_with_special_tokens = build_inputs_with_special_tokens
    try:
        yield
    finally:
        del base.build_inputs_with_special_tokens
