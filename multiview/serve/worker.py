"""Computes, in a worker process, vectors, judgements, searches and comparisons for lists of items.

A worker process opens its models once, when it starts (:func:`open_models`), and every function of this
module uses them. Items and results are plain Python and numpy objects, which can be pickled.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpora.text import Tokenizer
from multiview.folder.files import model_folder, model_sha256
from parsing.trees.drawings import dependency_svg
from runtime.errors import UserError

if TYPE_CHECKING:
    from multiview.judge import Judge, Judgement
    from multiview.model import MultiViewEncoder
    from multiview.search.collection import Collection

Item = TypeVar("Item")
Pair = tuple[str, str]
WARM_UP = ("The lawyer praised the doctor.", "The doctor was praised by the lawyer.")


class Refused(NamedTuple):
    """The result of an item that is refused, with one sentence that says why."""

    reason: str


class Embedding(NamedTuple):
    """The vector of a sentence, float32 [D], and the number of its tokens."""

    vector: NDArray[np.float32]
    tokens: int


class WorkerModels:
    """The encoder, judge and index of one process."""

    def __init__(self, model: str, index: Path | None, judge: str, max_length: int, max_inputs: int) -> None:
        from multiview.folder.reading import MAX_LENGTH
        from multiview.model import MultiViewEncoder

        self.digest = model_sha256(model_folder(model))[:12]
        # It must not cut a text before `tokens` sees that this is too long.
        longest = max(MAX_LENGTH, max_length + 1)
        self.encoder: MultiViewEncoder = MultiViewEncoder.load(model, "cpu", max_length=longest)
        self.model, self.index_path, self.judge_name = model, index, judge
        self.max_length, self.max_inputs = max_length, max_inputs

    @cached_property
    def judge(self) -> Judge:
        """The judge, for which the builtin encoder parses the sentences."""
        from multiview.judge import Judge

        return Judge.load(self.judge_name, source=self.encoder if self.model == "builtin" else None)

    @cached_property
    def index(self) -> Collection:
        """The sentences of ``--index`` with their vectors, encoded once and kept on disk."""
        from multiview.names.opened import open_encoder
        from multiview.search.collection import Collection
        from multiview.sentence_input import SentenceInput

        if self.index_path is None:
            raise UserError("this server has no index; start it with --index TEXT")
        corpus = SentenceInput(self.index_path, split=True)
        return Collection.load_or_encode(corpus, open_encoder(self.model, device="cpu"))

    @cached_property
    def splitter(self) -> Tokenizer:
        """The tokenizer that splits text into sentences."""
        return Tokenizer("spacy")

    def tokens(self, text: str) -> tuple[str, ...]:
        """Return the tokens of a sentence. Raises UserError if it has more than ``max_length``."""
        # Words between blanks are counted first, because the tokenizer is slow on a long text.
        tokens = tuple(text.split())
        if len(tokens) <= self.max_length:
            tokens = self.encoder.reader.tokens(text)
        if len(tokens) > self.max_length:
            raise UserError(f"a text of {len(tokens):,} words; this server takes {self.max_length:,}")
        return tokens

    def sentences(self, text: str) -> list[str]:
        """Split a text into sentences. Raises UserError if there are none or too many, or one is too long."""
        sentences = [sentence for sentence in self.splitter.split_sentences(text) if sentence]
        if not sentences:
            raise UserError("a text without sentences")
        if len(sentences) > self.max_inputs:
            raise UserError(f"a text of {len(sentences):,} sentences; this server takes {self.max_inputs:,}")
        for sentence in sentences:
            self.tokens(sentence)
        return sentences


_models: WorkerModels | None = None
_fault = ""
"""The reason why this process could not open its models, else ""."""


def open_models(model: str, index: Path | None, judge_name: str, max_length: int, max_inputs: int) -> None:
    """Open this process's models, and compute something once so that the first request is not slower.

    If something fails, :func:`ready` raises it.

    Args:
        model: the model folder, or ``builtin``.
        index: the text whose sentences are searched, or None.
        judge_name: the judge, as in :meth:`multiview.judge.judge.Judge.load`.
        max_length: the largest number of words of a text.
        max_inputs: the largest number of sentences of a text.
    """
    import torch

    global _models, _fault
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    torch.set_num_threads(1)  # this process is ours
    try:
        _models = WorkerModels(model, index, judge_name, max_length, max_inputs)
        embed(WARM_UP)
        judge([WARM_UP])
        if index is not None:
            _ = _models.index
    except Exception as error:
        _fault = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


def _end_with_the_server() -> None:
    """End this process when the server has died without ending it."""
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        os._exit(1)


def models() -> WorkerModels:
    """Return the models of this process."""
    assert _models is not None
    return _models


def ready() -> str:
    """Return the beginning of the hash of the open model. Raises UserError if none could be opened."""
    if _fault:
        raise UserError(_fault)
    return models().digest


def _map_valid(
    items: Sequence[Item], check: Callable[[Item], Any], compute: Callable[[list[Any]], Iterable[Any]]
) -> list[Any]:
    """Return a result for each item: one by ``compute``, or :class:`Refused` if ``check`` raises UserError.

    ``compute`` is called once, with what ``check`` returned for the valid items.
    """
    results: list[Any] = []
    taken = []
    for item in items:
        try:
            taken.append(check(item))
            results.append(None)
        except UserError as error:
            results.append(Refused(str(error)))
    computed = iter(compute(taken) if taken else ())
    return [next(computed) if result is None else result for result in results]


def embed(texts: Sequence[str]) -> list[Embedding | Refused]:
    """Return the vector of each sentence."""

    def compute(sentences: list[tuple[str, ...]]) -> Iterable[Embedding]:
        vectors = models().encoder.encode(sentences, show_progress_bar=False)
        return map(Embedding, vectors, map(len, sentences))

    return _map_valid(texts, models().tokens, compute)


def judge(pairs: Sequence[Pair], *, graded: bool = True) -> list[dict[str, Any] | Refused]:
    """Return the judgement of each pair as JSON; only if ``graded`` it has similarity and slots."""
    return _map_valid(pairs, _check, lambda taken: [_as_json(j, graded) for j in models().judge.pairs(taken)])


def _check(pair: Pair) -> Pair:
    """Return the pair. Raises UserError if one of its texts is too long."""
    for text in pair:
        models().tokens(text)
    return pair


def _as_json(judgement: Judgement, graded: bool) -> dict[str, Any]:
    reasons = [
        {"kind": r.kind, "a": r.a, "b": r.b, "place": r.place, "text": str(r)} for r in judgement.reasons
    ]
    return {
        "probability": round(judgement.probability, 6),
        "same": judgement.same,
        "reasons": reasons,
    } | ({"similarity": round(judgement.similarity, 6), "slots": judgement.slots} if graded else {})


def similarity(pairs: Sequence[Pair]) -> list[float | Refused]:
    """Return the judge's similarity of each pair, from 0 to 1."""
    return _map_valid(pairs, _check, lambda taken: [each.similarity for each in models().judge.pairs(taken)])


class SearchItem(NamedTuple):
    """One search."""

    query: str
    top: int
    """The number of hits."""
    text: str | None = None
    """The text to search; None searches the server's index."""
    judged: bool = False
    """Whether each hit gets the judgement of query and hit."""


def search(items: Sequence[SearchItem]) -> list[list[dict[str, Any]] | Refused]:
    """Return the hits of each search, the nearest first."""
    return _map_valid(items, _search, list)


def _search(item: SearchItem) -> list[dict[str, Any]]:
    from multiview.search import semantic_search
    from multiview.search.collection import NEAREST_JUDGED

    models().tokens(item.query)
    encoder = models().encoder
    query_1D = encoder.encode([item.query], show_progress_bar=False)
    top = max(item.top, NEAREST_JUDGED if item.judged else 1)
    if item.text is None:
        index = models().index
        found = [
            (index.corpus.line(hit.corpus_id), index.corpus.text(hit.corpus_id), hit.score)
            for hit in index.search(query_1D, top_k=top)[0]
        ]
    else:
        sentences = models().sentences(item.text)
        vectors_ND = encoder.encode(sentences, show_progress_bar=False)
        hits = semantic_search(query_1D, vectors_ND, top_k=top)[0]
        found = [(hit.corpus_id, sentences[hit.corpus_id], hit.score) for hit in hits]
    rows: list[dict[str, Any]] = [
        {"index": number, "text": text, "score": score} for number, text, score in found
    ]
    if item.judged:
        verdicts = judge([(item.query, text) for _, text, _ in found], graded=False)
        for row, verdict in zip(rows, verdicts, strict=True):
            row["judgement"] = None if isinstance(verdict, Refused) else verdict
    return rows


def compare(pairs: Sequence[Pair]) -> list[dict[str, Any] | Refused]:
    """Return the comparison of each pair that the page shows.

    It has all that :func:`judge` returns (probability, similarity, reasons, ...) and the roles as text. Both
    trees are SVG, in which the arcs that differ are marked. The cosine of structure is None for a model
    without structure; the cosine of meaning is always there.
    """
    results: list[dict[str, Any] | Refused] = []
    for pair, verdict in zip(pairs, judge(pairs), strict=True):
        try:
            results.append(verdict if isinstance(verdict, Refused) else {**verdict, **_comparison(pair)})
        except UserError as error:  # such as a sentence that is too long for the parsers
            results.append(Refused(str(error)))
    return results


def _comparison(pair: Pair) -> dict[str, Any]:
    encoder = models().encoder
    explanation = encoder.explain(*pair)
    differing = [binding for binding in explanation.bindings if not binding.is_same]
    trees = []
    for side, sentence in enumerate((explanation.a, explanation.b)):
        heads, relations = sentence.heads or [], sentence.relations or []
        arcs = [arc for binding in differing for arc in binding.positions[side]]
        # A role may run against the arc that is drawn: in "the doctor who left" doctor is the agent of left.
        ends = [end for head, dependent in arcs for end in ((head, dependent), (dependent, head))]
        marked = {dependent for head, dependent in ends if heads[dependent] == head + 1}
        trees.append(dependency_svg(sentence.words, heads, relations, marked=marked))
    cosines = {"meaning": explanation.cosine, **explanation.cosines}
    return {
        "trees": trees,
        "meaning": round(cosines["meaning"], 4),
        "structure": round(cosines["structure"], 4) if "structure" in cosines else None,
        "roles": [str(binding).strip() for binding in explanation.bindings],
    }
