"""Sentences to trees, as arrays and for people: the one path of ``parsing.run``, ``encode`` and spaCy.

    from parsing import load

    trees = load()("Some text. Two sentences.")
    print(trees[0])                # or just `trees` in a notebook, which draws them
    trees[0].heads, trees[0].spans
    trees.to_conllu(), trees.to_ptb()

A sentence that a parser cannot take keeps its place with a fallback tree and a flag. Trees depend on the
sentences alone, not on how many are parsed together.

supar's checkpoints are pickles and are never opened here; the error message says how to convert them into
a model folder. benepar's hold weights and plain values and are read by name or file without running code.

Shapes: B sentences, N tokens.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from corpora.characters import VERSION, plain
from corpora.inputs import NOT_UTF8, is_encodable
from corpora.sentences import read_sentences
from corpora.text import Tokenizer, Tokens
from parsing import check_parser
from parsing.trees.arrays import DEFECTS, NULL_LABEL, binarise, constituency_heights, dependency_heights
from parsing.trees.batch import (
    BLANK_TOKEN,
    CONST_FALLBACK,
    DEP_FALLBACK,
    DUMMY_NAME,
    EMPTY,
    FALLBACK_NAME,
    TOO_LONG,
    Batch,
    ConstituencyParse,
    ConstituencyParser,
    DependencyParse,
    DependencyParser,
    DeviceLost,
    Int,
    Int32,
    Int64,
    Inventories,
    UInt8,
    offsets_of,
)
from parsing.trees.sentences import Trees, batch_sentences
from runtime.cli import warn_once
from runtime.errors import UserError, out_of_memory
from runtime.surroundings import state_without

if TYPE_CHECKING:
    import torch

BUILTIN = {kind: Path(__file__).parent / "builtin" / f"{kind}-v3" for kind in ("dep", "const")}
"""Model folders that are shipped."""
MAX_TOKENS = 128
SAMPLE = 50
"""Sentences of which it is told whether they are English."""
KNOWN = ("The", "cat", "sat", "on", "the", "mat", ".")
"""A sentence that every parser takes."""

Parse = TypeVar("Parse")
Tell = Callable[[str], object]


class TextParser:
    """Tokenizer and parsers; call it with a text. Made by :func:`load`, which says what None leaves out."""

    def __init__(
        self,
        dependency: DependencyParser | None,
        constituency: ConstituencyParser | None,
        *,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        self.dependency, self.constituency, self.max_tokens = dependency, constituency, max_tokens
        # The names of the parsers' ids, with the reserved last ones.
        self.inventories = Inventories(
            relations=(*dependency.relations, FALLBACK_NAME) if dependency else (),
            labels=(*constituency.labels, DUMMY_NAME) if constituency else (),
            tags=(*constituency.tags, FALLBACK_NAME) if constituency else (),
        )

    def __getstate__(self) -> dict[str, object]:
        return state_without(self, "_tokenizer")

    @property
    def identity(self) -> dict[str, Any]:
        """Say what decides the trees of a sentence, the parsers and the limit, for a cache's identity."""
        return {
            "dependency": dict(self.dependency.identity) if self.dependency else None,
            "constituency": dict(self.constituency.identity) if self.constituency else None,
            "options": {"max_tokens": self.max_tokens, "characters": VERSION},
        }

    def __call__(self, text: str) -> Trees:
        """Parse running text of any length; as in files, no sentence crosses a line break."""
        if not isinstance(text, str):
            raise UserError(f"a text is a string, this is a {type(text).__name__}; .parse() takes tokens")
        if not is_encodable(text):
            raise UserError(f"parse: {text!r:.60}: {NOT_UTF8}")
        lines = re.split("\r?\n" if "\n" in text else "\r", text)
        return self.parse([tokens for line in lines for tokens in self._tokenizer.sentences(line)])

    @functools.cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer("spacy", running=True)

    def parse(self, sentences: Iterable[Sequence[str]]) -> Trees:
        """Parse tokenised sentences, [sentences][tokens]; a string or something odd is refused by number."""
        rows = read_sentences(sentences, "parse", strings=False)
        return Trees(batch_sentences(self.arrays(rows), self.inventories))

    def arrays(
        self, sentences: Sequence[Sequence[str]], flags: Sequence[int] | None = None, tell: Tell = warn_once
    ) -> Batch:
        """Parse tokenised sentences into one batch, which keeps them all, as a cache would return it.

        The reader of the text sets ``flags`` [B]; ``tell`` is called with what a parser did wrong, a line per
        sentence.
        """
        read = read_sentences(sentences, "parse", strings=False, spaces=True)
        stored, flags_B, parsable = prepare(read, flags, self.max_tokens)
        if self._is_foreign(stored):
            tell("few of these words are English, which alone the builtin parsers know: trees will be wrong")
        # Parsers that share an encoder run together, and each by itself on what that failed on.
        both: dict[int, Any] = {}
        first: Any = self.dependency
        if hasattr(first, "shares_encoder") and first.shares_encoder(self.constituency):
            joint = functools.partial(first.parse_with, self.constituency)
            both = parse_each(joint, stored, parsable, "joint", lambda fault: None)
        left = [i for i in parsable if i not in both]
        arcs = spans = None
        if self.dependency is not None:
            arcs = {i: one for i, (one, _) in both.items()}
            arcs |= parse_each(self.dependency.parse, stored, left, "dependency", tell)
        if self.constituency is not None:
            spans = {i: other for i, (_, other) in both.items()}
            spans |= parse_each(self.constituency.parse, stored, left, "constituency", tell)
        return assemble(stored, flags_B, self.inventories, arcs, spans, tell)

    def _is_foreign(self, sentences: Sequence[Tokens]) -> bool:
        """Tell whether a builtin parser knows fewer of the first words than of any English text.

        It knows 96 % of the words of English books, 92 % of Wikipedia's, 10 to 49 % of European languages'.
        """
        parser: Any = self.dependency or self.constituency
        if parser is None or not str(parser.identity.get("name")).startswith("builtin"):
            return False
        words = [
            word for tokens in sentences[:SAMPLE] for word in tokens if len(word) > 1 and word[0].isalpha()
        ]
        known = sum(map(parser.vectors.table.lists, words))
        return len(words) > 3 and known < 0.6 * len(words) - len(words) ** 0.5 / 2  # more than chance


def load(
    dep: str | None = "builtin",
    const: str | None = "builtin",
    *,
    device: str | torch.device = "cpu",
    max_tokens: int = MAX_TOKENS,
) -> TextParser:
    """Load parsers by name (see :func:`load_parser`) and return them ready for text; None leaves one out.

    Sentences of more than ``max_tokens`` get a fallback tree and a flag.
    """
    if dep is None and const is None:
        raise UserError("dep and const are both None: nothing to parse with")
    dependency = None if dep is None else load_parser("dep", dep, device)
    constituency = None if const is None else load_parser("const", const, device)
    return TextParser(dependency, constituency, max_tokens=max_tokens)


def load_parser(kind: str, spec: str = "builtin", device: str | torch.device = "cpu") -> Any:
    """Load the parser that ``--dep-model`` or ``--const-model`` names; ``kind`` is ``dep`` or ``const``.

    ``spec`` is ``builtin``, or a folder of parsing.train or parsing.convert; for ``const`` also a benepar
    model by name (``benepar_en3``), file or folder. Sentences are encoded and scored on the device, whose
    type is part of the parser's identity, unless it is the CPU. A model or device that is not there is
    refused, and so is a model that is damaged or has to be converted first.
    """
    check_parser(kind, spec)
    from parsing.networks.parser import load_model_folder
    from runtime.device import pick_device

    parser: Any
    path = BUILTIN[kind] if spec == "builtin" else Path(spec)
    if kind == "const" and not (path.is_dir() and not (path / "benepar_model.bin").exists()):
        from parsing.libraries.benepar import load_benepar

        parser = load_benepar(spec)
    elif kind == "dep":
        from parsing.networks.dependency import BiaffineParser, DependencyModel

        folder = load_model_folder(path, "dependency")
        parser = BiaffineParser(DependencyModel.from_folder(folder), folder.identity)
    else:
        from parsing.networks.constituency import ConstituencyModel, SpanParser

        folder = load_model_folder(path, "constituency")
        parser = SpanParser(ConstituencyModel.from_folder(folder), folder.identity)
    chosen = pick_device(device)
    if chosen.type != "cpu":
        parser.to(chosen)
    return parser


def prepare(
    sentences: Sequence[Sequence[str]], flags: Sequence[int] | None, max_tokens: int
) -> tuple[list[Tokens], UInt8, list[int]]:
    """Flag what parsers cannot take; return sentences as they are stored, flags [B], numbers of others."""
    stored: list[Tokens] = []
    flags_B = np.zeros(len(sentences), np.uint8) if flags is None else np.array(flags, np.uint8)
    parsable: list[int] = []
    for i, tokens in enumerate(map(tuple, sentences)):
        blank = [not plain(word).strip() for word in tokens]
        if all(blank):
            flags_B[i] |= EMPTY
            tokens = ("",)
        elif len(tokens) > max_tokens:
            flags_B[i] |= TOO_LONG
        elif any(blank):
            flags_B[i] |= BLANK_TOKEN
        else:
            parsable.append(i)
        stored.append(tokens)
    return stored, flags_B, parsable


def parse_each(
    parse: Callable[[Sequence[Tokens]], Sequence[Parse]],
    sentences: list[Tokens],
    which: list[int],
    name: str,
    tell: Tell,
) -> dict[int, Parse]:
    """Parse the sentences ``which``; return parses by number. Where a batch fails, its halves are tried.

    A sentence that fails alone is left out, and ``tell`` gets a line. What is no sentence's fault is raised:
    a lack of memory, a lost device, or what lets a known sentence fail as well; trees must not depend on it.
    """
    if not which:
        return {}
    try:
        parses = parse([sentences[i] for i in which])
        if len(parses) != len(which):
            raise ValueError(f"{len(parses)} parses of {len(which)} sentences")
        return dict(zip(which, parses, strict=True))
    except Exception as error:
        if out_of_memory(error) or isinstance(error, DeviceLost):
            raise
        if len(which) == 1:
            try:
                parse([KNOWN])
            except Exception:
                line = f"{type(error).__name__}: {' '.join(str(error).split())}"
                raise UserError(f"{name} parser: fails on any sentence here ({line})") from error
            tell(_fault(f"{name} parser", error, sentences[which[0]]))
            return {}
    half = len(which) // 2
    first_half = parse_each(parse, sentences, which[:half], name, tell)
    return first_half | parse_each(parse, sentences, which[half:], name, tell)


def assemble(
    sentences: Sequence[Tokens],
    flags: UInt8,
    inventories: Inventories,
    arcs: dict[int, DependencyParse] | None,
    spans: dict[int, ConstituencyParse] | None,
    tell: Tell,
) -> Batch:
    """Put sentences and parses into a batch; one without a sound parse gets a fallback tree and a flag.

    ``arcs`` and ``spans`` are by number of the sentence; None leaves the view out. Treebanks may have the
    relation and the tag ``_``. ``flags`` [B] is updated; ``tell`` gets a line for each parse that is wrong.
    """
    ids: dict[str, int] = {}
    token = [ids.setdefault(word, len(ids)) for tokens in sentences for word in tokens]
    offsets = offsets_of([len(tokens) for tokens in sentences])
    arrays: dict[str, Int32] = {"token": np.array(token, np.int32)}
    if arcs is not None:
        arrays |= _dependency_fields(sentences, offsets, len(inventories.relations) - 1, arcs, flags, tell)
    if spans is not None:
        arrays |= _constituency_fields(sentences, offsets, inventories, spans, flags, tell)
    return Batch(
        sentence_offsets=offsets,
        flags=flags,
        fields=tuple(arrays),
        types=list(ids),
        relations=inventories.relations,
        **arrays,
    )


def _dependency_fields(
    sentences: Sequence[Tokens],
    offsets: Int64,
    fallback: int,
    arcs: dict[int, DependencyParse],
    flags: UInt8,
    tell: Tell,
) -> dict[str, Int32]:
    """Fill the arrays of dependency trees; ``fallback`` is the relation of words without a sound tree."""
    # The fallback first, for all: a chain, each word's head the one before it.
    head = (np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))).astype(np.int32)
    relation = np.full(offsets[-1], fallback, np.int32)
    for i, tokens in enumerate(sentences):
        n, arc, here = len(tokens), arcs.get(i), slice(offsets[i], offsets[i + 1])
        defect = "ids outside the parser's inventories, or not one per word"
        if arc is not None and len(arc.heads) == n and _fits(arc.relations, n, fallback + 1):
            defect = DEFECTS[dependency_heights(arc.heads, np.array([0, n]))[1][0]]
        if arc is not None and not defect:
            head[here], relation[here] = arc.heads, arc.relations
            continue
        flags[i] |= DEP_FALLBACK
        if arc is not None:
            tell(_fault("dependency tree", defect, tokens))
    return {"head": head, "relation": relation, "dep_height": dependency_heights(head, offsets)[0]}


def _constituency_fields(
    sentences: Sequence[Tokens],
    offsets: Int64,
    inventories: Inventories,
    spans: dict[int, ConstituencyParse],
    flags: UInt8,
    tell: Tell,
) -> dict[str, Int32]:
    """Fill the arrays of constituency trees; a sentence without a sound one gets a flat one."""
    dummy, no_tag, trees, tags = inventories.dummy_label, len(inventories.tags) - 1, [], []
    for i, tokens in enumerate(sentences):
        n, parse = len(tokens), spans.get(i)
        if parse is not None:
            try:
                if not (_fits(parse.tags, n, no_tag + 1) and _fits(parse.labels, len(parse.labels), dummy)):
                    raise ValueError("ids outside the parser's inventories")
                trees.append(binarise(parse, dummy))
            except ValueError as error:
                tell(_fault("constituency tree", error, tokens))
                parse = None
        if parse is None:
            flags[i] |= CONST_FALLBACK
            columns = (np.array([number], np.int32) for number in (0, n, NULL_LABEL))
            parse = ConstituencyParse(np.full(n, no_tag, np.int32), *columns)
            trees.append(binarise(parse, dummy))
        tags.append(parse.tags)
    none = [np.zeros(0, np.int32)]
    arrays = {"tag": np.concatenate(tags or none, dtype=np.int32)}
    for name in ("leaf_label", "left", "right", "label"):
        arrays[name] = np.concatenate([getattr(tree, name) for tree in trees] or none)
    heights = constituency_heights(arrays["left"], arrays["right"], offsets)[0]
    return {**arrays, "const_height": heights}


def _fits(values: Int, length: int, bound: int) -> bool:
    """Tell whether ``values`` has ``length`` entries, all in ``0..bound-1``."""
    return len(values) == length and bool(length == 0 or (values.min() >= 0 and values.max() < bound))


def _fault(name: str, what: object, tokens: Sequence[str]) -> str:
    return f"{name}: {what}; {' '.join(tokens)[:80]!r}"
