"""The parsers as a spaCy component.

    nlp = spacy.blank("en")
    nlp.add_pipe("multiview_parser")            # config={"dep": "builtin", "const": "builtin"}
    doc = nlp("The cat sat on the mat. It slept.")
    doc[1].head, doc[1].dep_, doc[1].tag_       # and pos_, doc.sents, doc.noun_chunks
    next(doc.sents)._.parse_string              # constituents: benepar's own extensions

Sentences that an earlier component found are kept; otherwise spaCy's sentencizer rule splits. Tokens of white
space or of characters without width, which parsers cannot take, hang from the word before them (at the start
of a document, from the first word) with the relation ``dep`` and the tag ``_SP``.

Every pipeline that spaCy makes imports this module, ours for tokens too, so it imports nothing heavy (with
benepar's extensions and what they import it took half of the time to a first sentence).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import srsly
from spacy.language import Language
from spacy.tokens import Doc, Span, Token
from spacy.util import minibatch

from corpora.characters import plain
from corpora.universal import universal_tags

if TYPE_CHECKING:
    from benepar.integrations.spacy_extensions import ConstituentData
    from thinc.types import Ints2d

    from parsing.text_parser import TextParser
    from parsing.trees.sentences import ParsedSentence

Places = list[list[int]]
"""The words of each parsed sentence, as positions in the document."""
DOCUMENTS = 64
"""Parsed at a time at most."""
LEAF = re.compile(r"( ?)\((\S*) ([^()]*)\)")
"""A word of benepar's brackets, with the space before it."""
INSIDE = {"amod", "compound", "det", "flat", "goeswith", "nummod", "predet", "poss", "quantmod"}
"""Relations inside of a noun chunk, besides that of a possessor."""


@Language.factory(
    "multiview_parser",
    default_config={"dep": "builtin", "const": "builtin", "max_tokens": 128},
    assigns=["token.head", "token.dep", "token.tag", "token.pos", "token.is_sent_start", "doc.sents"],
)
def make(nlp: Language, name: str, dep: str | None, const: str | None, max_tokens: int) -> ParserComponent:
    """Return the component; its options are those of :func:`parsing.load`."""
    from parsing.text_parser import load

    if nlp.lang not in ("en", "xx") and "builtin" in (dep, const):
        known = "multiview_parser: the builtin parsers know English alone"
        warnings.warn(f"{known}, and this pipeline is {nlp.lang!r}", stacklevel=2)
    nlp.vocab.get_noun_chunks = noun_chunks  # type: ignore[assignment]  # as spaCy's own are
    return ParserComponent(load(dep, const, max_tokens=max_tokens))


class ParserComponent:
    """Fills heads, relations, tags, sentences and constituents of a :class:`spacy.tokens.Doc`."""

    def __init__(self, parser: TextParser) -> None:
        from benepar.integrations import spacy_extensions  # registers the extensions
        from spacy.pipeline import Sentencizer

        def on_one_line(leaf: re.Match[str]) -> str:
            before, tag, word = leaf.groups()
            return "" if tag == "_SP" else f"{before}({tag} {'_'.join(word.split())})"

        def brackets(span: Span | Token) -> str:
            words = span if isinstance(span, Span) else span.doc[span.i : span.i + 1]
            return LEAF.sub(on_one_line, spacy_extensions.parse_string(words)).strip()

        for kind in (Span, Token):
            kind.set_extension("parse_string", getter=brackets, force=True)
        self.parser, self._split = parser, Sentencizer()

    def __call__(self, doc: Doc) -> Doc:
        """Parse the document in place."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = DOCUMENTS) -> Iterator[Doc]:
        """Parse documents in place, the sentences of several together."""
        from parsing.trees.sentences import batch_sentences

        for batch in minibatch(stream, min(batch_size, DOCUMENTS)):  # type: ignore[no-untyped-call]
            docs = [doc if doc.has_annotation("SENT_START") else self._split(doc) for doc in batch]
            pairs = [(doc, _places(doc)) for doc in docs]
            texts = [[doc[i].text for i in words] for doc, places in pairs for words in places]
            parsed = batch_sentences(self.parser.arrays(texts), self.parser.inventories)
            for doc, own in pairs:
                trees = list(islice(parsed, len(own)))
                if len(doc):
                    _annotate(doc, own, trees, self.parser)
                if len(doc) and self.parser.constituency is not None:
                    doc._._constituent_data = _constituents(doc, own, trees)
                yield doc


def _places(doc: Doc) -> Places:
    """Return the words of a document by sentence; sentences of white space are left out."""
    places = ([token.i for token in span if plain(token.text).strip()] for span in doc.sents)
    return [words for words in places if words]


def _annotate(doc: Doc, places: Places, parsed: list[ParsedSentence], parser: TextParser) -> None:
    """Write heads, relations and tags; the document's sentences follow from the heads."""
    heads = np.arange(len(doc))  # a token that is its own head is a root
    relations, tags, parts = ["dep"] * len(doc), ["_SP"] * len(doc), ["SPACE"] * len(doc)
    relations[0] = relations[0] if places else "ROOT"
    for words, sentence in zip(places, parsed, strict=True):
        for i, head, relation in zip(words, sentence.heads or (), sentence.relations or (), strict=False):
            heads[i] = words[head - 1] if head else i
            relations[i] = relation if head else "ROOT"
        if named := sentence.tags:
            upos = universal_tags(sentence.words, named, sentence.relations or ["_"] * len(words))
            for i, tag, part in zip(words, named, upos, strict=True):
                tags[i], parts[i] = tag, part
    before = places[0][0] if places else 0
    for token in doc:
        if plain(token.text).strip():
            before = token.i
        else:
            heads[token.i] = before
    add = doc.vocab.strings.add
    columns = {}
    if parser.dependency is not None:
        columns["HEAD"] = (heads - np.arange(len(doc))).astype(np.int64).view(np.uint64)
        columns["DEP"] = np.array([add(name) for name in relations], np.uint64)
    if parser.constituency is not None:
        columns["TAG"] = np.array([add(name) for name in tags], np.uint64)
        columns["POS"] = np.array([add(name) for name in parts], np.uint64)
    doc.from_array(list(columns), cast("Ints2d", np.stack(list(columns.values()), axis=1)))


def _constituents(doc: Doc, places: Places, parsed: list[ParsedSentence]) -> ConstituentData:
    """Return the record of a document's constituents that benepar's extensions read."""
    from benepar.integrations.spacy_extensions import ConstituentData

    from parsing.trees.brackets import CHAIN

    starts = [0, *(words[0] for words in places[1:]), len(doc)]
    rows: list[tuple[int, int, str]] = [] if places else [(0, len(doc), "")]
    for words, sentence, start, end in zip(places, parsed, starts, starts[1:], strict=False):
        # As in benepar every token is a constituent, one without a label if the parser gave none, and the
        # whole sentence covers the white space around it.
        spans = sentence.spans or []
        here = {(i, i + 1): "" for i in range(start, end)}
        here |= {(words[a], words[b - 1] + 1): label for a, b, label in spans[1:]}
        here[start, end] = spans[0][2]
        preorder = sorted(here, key=lambda row: (row[0], -row[1]))
        rows += [(a, b, here[a, b]) for a, b in preorder]
    begins, ends, labels = zip(*rows, strict=True)
    names, ids = np.unique(labels, return_inverse=True)
    first = np.full(len(doc), -1)
    for row, start in reversed(list(enumerate(begins))):
        first[start] = row
    chains = [tuple(name.split(CHAIN)) if name else () for name in names.tolist()]
    return ConstituentData(np.array(begins), np.array(ends), ids, first, chains)


def _packed(value: Any, chain: Any = None) -> Any:
    """Return the record of constituents as msgpack takes it, for ``Doc.to_bytes`` and other processes."""
    if type(value).__name__ == "ConstituentData":
        return {"multiview_constituents": list(vars(value).values())}
    return value if chain is None else chain(value)


def _unpacked(value: Any, chain: Any = None) -> Any:
    if "multiview_constituents" not in value:
        return value if chain is None else chain(value)
    from benepar.integrations.spacy_extensions import ConstituentData

    *arrays, names = value["multiview_constituents"]
    return ConstituentData(*arrays, [tuple(name) for name in names])


srsly.msgpack_encoders.register("multiview_constituents", func=_packed)
srsly.msgpack_decoders.register("multiview_constituents", func=_unpacked)


def noun_chunks(part: Doc | Span) -> Iterator[tuple[int, int, int]]:
    """Yield first word, one past the last, and label of base noun phrases, as spaCy asks for them.

    A chunk is a noun that is in no other, with what determines, counts, owns and qualifies it.
    """
    label = part.doc.vocab.strings.add("NP")
    for noun in part:
        inner = _is_inside(noun) or noun.dep_ in ("expl", "fixed")
        if noun.pos_ not in ("NOUN", "PRON", "PROPN") or inner:
            continue
        start, end = noun.i, noun.i + 1
        for child in reversed(list(noun.lefts)):
            if _is_inside(child):
                start = child.left_edge.i
            elif child.dep_ != "punct":
                break
        for child in noun.rights:
            if child.dep_ not in ("flat", "goeswith"):
                break
            end = child.right_edge.i + 1
        yield start, end, label


def _is_inside(token: Token) -> bool:
    return token.dep_.partition(":")[0] in INSIDE or token.dep_ in ("nmod:desc", "nmod:poss", "nmod:unmarked")
