"""Runs benepar's own models, character LSTM or pretrained transformer, in batches of similar length.

benepar 0.2.0 is older than transformers 5, whose tokenizers have no ``build_inputs_with_special_tokens``; the
method is added while a model is loaded. benepar fails on words that are blank or that a tokenizer drops; they
are replaced by ``-``. :mod:`tests.oracles.benepar` does the reverse: it puts our weights into benepar's
classes.
"""

import hashlib
import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from corpora.characters import normalise_text
from corpora.sentences import read_sentences
from parsing.networks.parser import DeviceParser, Stages
from parsing.trees.batch import ConstituencyParse
from runtime.errors import UserError, extra
from runtime.files import check_regular, sha256_file
from runtime.process import temporarily

with extra("parsers", "benepar"):
    import transformers
    from benepar.integrations.downloader import BENEPAR_SERVER_INDEX, locate_model
    from benepar.integrations.nltk_plugin import InputSentence, guess_language
    from benepar.parse_chart import ChartParser
    from benepar.ptb_unescape import guess_space_after
    from transformers import dynamic_module_utils

VERSION = "0.2.0"
UNREADABLE_WORD = "-"
"""The word that replaces one that a model cannot read."""
MAX_TYPES = 60_000
"""The number of words of which a cache keeps whether the model can read them."""


class BeneparParser(DeviceParser):
    """A benepar model as a :class:`parsing.trees.batch.ConstituencyParser`."""

    def __init__(self, parser: ChartParser, identity: dict[str, str]) -> None:
        super().__init__(parser, identity)
        self.parser = parser
        self.labels = _names_by_index(parser.label_vocab)
        self.tags = _names_by_index(parser.tag_vocab) if parser.f_tag is not None else ("UNK",)
        self._language = guess_language(parser.label_vocab)
        self._readable_word = lru_cache(MAX_TYPES)(self._make_readable)

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ConstituencyParse]:
        """Return one parse per sentence, in order; raise ValueError if one is too long for the model."""
        sentences = read_sentences(sentences, "parse", strings=False, spaces=True)
        readable = [[self._readable_word(normalise_text(word)) for word in words] for words in sentences]
        sizes = [len(tokens) + 2 for tokens in sentences]
        if self.parser.encoder is not None:
            limit = self.parser.add_timing.timing_table.shape[0]
            if max(sizes, default=0) > limit:
                raise ValueError(f"a sentence of {max(sizes) - 2} words; the model takes {limit - 2}")
        return self.run_batches(sizes, lambda indices: self._parse_batch([readable[i] for i in indices]))

    def _parse_batch(self, sentences: list[list[str]]) -> Stages[ConstituencyParse]:
        yield
        inputs = []
        for words in sentences:
            spaces = [self._language != "zh"] * len(words)  # as benepar's front end for nltk does
            if self._language not in ("zh", "ar", "he"):
                spaces = list(guess_space_after(words))
            inputs.append(InputSentence(words=words, space_after=spaces, escaped_words=words))
        parses = []
        for output, words in zip(self.parser.parse(inputs, return_compressed=True), sentences, strict=True):
            is_span = np.asarray(output.labels) != 0  # spans of one word have no label, and are left out
            is_span[0] = True
            columns = (output.starts, output.ends, output.labels)
            spans = (np.asarray(column)[is_span].astype(np.int32) for column in columns)
            tags = np.zeros(len(words)) if output.tags is None else np.asarray(output.tags)
            parses.append(ConstituencyParse(tags.astype(np.int32), *spans))
        return parses

    def _make_readable(self, word: str) -> str:
        """Return a word, or :data:`UNREADABLE_WORD` if the model cannot read it."""
        if self.parser.char_encoder is not None:
            return word or UNREADABLE_WORD
        tokenizer = self.parser.retokenizer.tokenizer
        is_readable = word.strip() and tokenizer(word, add_special_tokens=False)["input_ids"]
        return word if is_readable else UNREADABLE_WORD


def load_benepar(name_or_path: str) -> BeneparParser:
    """Load a benepar model from a file or folder, or by the name of a downloaded one; no code of it is run.

    Raises UserError if there is no such model, or if benepar cannot read it.
    """
    try:
        path = Path(locate_model(name_or_path))
    except LookupError:
        raise UserError(
            f"{name_or_path}: no such file, and no benepar model of that name is on this machine; "
            f"fetch one with python -c \"import benepar; benepar.download('{name_or_path}')\" "
            f"(it reads {BENEPAR_SERVER_INDEX})"
        ) from None
    for file in path.rglob("*") if path.is_dir() else [path]:
        if not file.is_dir():
            check_regular(file)
    try:
        with patched_libraries():
            parser = ChartParser.from_trained(str(path))
    except Exception as error:
        # torch, transformers and zip readers raise anything on foreign files.
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{path}: benepar cannot read it ({reason})") from None
    if path.is_file():
        digest = sha256_file(path)
    else:
        files = sorted(file for file in path.rglob("*") if file.is_file())
        lines = "\n".join(f"{file.relative_to(path)} {sha256_file(file)}" for file in files)
        digest = hashlib.sha256(lines.encode()).hexdigest()
    return BeneparParser(parser, {"name": f"benepar-{path.name}", "version": VERSION, "sha256": digest})


def patched_libraries() -> ExitStack:
    """Patch the libraries so that benepar runs no code of a model and finds the missing method."""
    stack = ExitStack()
    # benepar calls torch's loader without weights_only=True; the variable has the same effect.
    stack.enter_context(temporarily(os.environ, {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}))
    # By default transformers asks whether to run the code of a folder; with 0 seconds to answer it refuses.
    stack.enter_context(temporarily(vars(dynamic_module_utils), {"TIME_OUT_REMOTE_CODE": 0}))
    base, name = transformers.PreTrainedTokenizerBase, "build_inputs_with_special_tokens"

    def with_special_tokens(self: Any, ids: list[int], _: Any = None) -> list[int]:
        example = self("a", return_special_tokens_mask=True)
        of_text = [i for i, is_special in enumerate(example["special_tokens_mask"]) if not is_special]
        return [*example["input_ids"][: of_text[0]], *ids, *example["input_ids"][of_text[-1] + 1 :]]

    if not hasattr(base, name):  # as in transformers 5
        setattr(base, name, with_special_tokens)
        stack.callback(delattr, base, name)
    return stack


def _names_by_index(vocabulary: dict[str, int]) -> tuple[str, ...]:
    """Return names in the order of their indices, with ``""`` for an index without a name."""
    names = {i: name for name, i in vocabulary.items()}
    return tuple(names.get(i, "") for i in range(max(names) + 1))
