"""The parsers as a component of a spaCy pipeline.

An example is in docs/parsing-alone.md. Sentences that an earlier component found are kept; otherwise spaCy's
sentencizer splits the text. Parsers cannot take tokens of white space or of characters without width. Such a
token gets the relation ``dep``, the tag ``_SP``, and as its head the word before it, or at the start of a
document the first word.

spaCy imports this module for every pipeline, even for one that only tokenises, so the module imports little.
For example, benepar's extensions took half of the time to the first parsed sentence.
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

from corpora.characters import normalise_text
from corpora.treebanks import universal_tags
from runtime.errors import extra

if TYPE_CHECKING:
    from benepar.integrations.spacy_extensions import ConstituentData
    from thinc.types import Ints2d

    from parsing.text_parser import TextParser
    from parsing.trees.sentences import ParsedSentence

Positions = list[list[int]]
"""The positions in the document of the words of each parsed sentence."""
MAX_DOCUMENTS = 64
"""The largest number of documents that are parsed together."""
LEAF = re.compile(r"( ?)\((\S*) ([^()]*)\)")
"""A word in benepar's brackets, with the space before it."""
CHUNK_RELATIONS = {"amod", "compound", "det", "flat", "goeswith", "nummod", "predet", "poss", "quantmod"}
CHUNK_RELATIONS |= {"nmod:desc", "nmod:poss", "nmod:unmarked"}
"""Relations within a noun chunk, with or without a subtype."""


@Language.factory(
    "multiview_parser",
    default_config={"dep": "builtin", "const": "builtin", "max_tokens": 128},
    assigns=["token.head", "token.dep", "token.tag", "token.pos", "token.is_sent_start", "doc.sents"],
)
def make(nlp: Language, name: str, dep: str | None, const: str | None, max_tokens: int) -> ParserComponent:
    """Return the component, whose options are those of :func:`parsing.load`."""
    from parsing.text_parser import load

    if nlp.lang not in ("en", "xx") and "builtin" in (dep, const):
        fact = f"the builtin parsers know English alone, and this pipeline is {nlp.lang!r}"
        warnings.warn(f"multiview_parser: {fact}", stacklevel=2)
    nlp.vocab.get_noun_chunks = noun_chunks  # type: ignore[assignment]  # as spaCy's own are
    return ParserComponent(load(dep, const, max_tokens=max_tokens))


class ParserComponent:
    """Fills heads, relations, tags, sentences and constituents of a :class:`spacy.tokens.Doc`."""

    def __init__(self, parser: TextParser) -> None:
        from spacy.pipeline import Sentencizer

        with extra("parsers"):
            from benepar.integrations import spacy_extensions  # registers the extensions

        def write_leaf(leaf: re.Match[str]) -> str:
            space, tag, word = leaf.groups()
            return "" if tag == "_SP" else f"{space}({tag} {'_'.join(word.split())})"

        def write_brackets(node: Span | Token) -> str:
            span = node if isinstance(node, Span) else node.doc[node.i : node.i + 1]
            return LEAF.sub(write_leaf, spacy_extensions.parse_string(span)).strip()

        for spacy_class in (Span, Token):
            spacy_class.set_extension("parse_string", getter=write_brackets, force=True)
        self.parser, self._split_sentences = parser, Sentencizer()

    def __call__(self, doc: Doc) -> Doc:
        """Parse the document in place."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = MAX_DOCUMENTS) -> Iterator[Doc]:
        """Parse documents in place; the sentences of ``batch_size`` documents are parsed together."""
        from parsing.trees.sentences import batch_sentences

        for batch in minibatch(stream, min(batch_size, MAX_DOCUMENTS)):  # type: ignore[no-untyped-call]
            docs = [doc if doc.has_annotation("SENT_START") else self._split_sentences(doc) for doc in batch]
            pairs = [(doc, _positions(doc)) for doc in docs]
            texts = [[doc[i].text for i in words] for doc, positions in pairs for words in positions]
            sentences = batch_sentences(self.parser.parse_to_batch(texts), self.parser.inventories)
            for doc, positions in pairs:
                sentences_of_doc = list(islice(sentences, len(positions)))
                if len(doc):
                    _annotate(doc, positions, sentences_of_doc, self.parser)
                if len(doc) and self.parser.constituency is not None:
                    doc._._constituent_data = _constituents(doc, positions, sentences_of_doc)
                yield doc


def _positions(doc: Doc) -> Positions:
    """Return the positions of the words of each sentence, without sentences of white space alone."""
    positions = ([token.i for token in span if normalise_text(token.text).strip()] for span in doc.sents)
    return [words for words in positions if words]


def _annotate(doc: Doc, positions: Positions, sentences: list[ParsedSentence], parser: TextParser) -> None:
    """Write heads, relations and tags; the document's sentences follow from the heads."""
    heads = np.arange(len(doc))  # a token that is its own head is a root
    relations, tags, universal = ["dep"] * len(doc), ["_SP"] * len(doc), ["SPACE"] * len(doc)
    if not positions:
        relations[0] = "ROOT"
    for words, sentence in zip(positions, sentences, strict=True):
        for i, head, relation in zip(words, sentence.heads or (), sentence.relations or (), strict=False):
            heads[i] = words[head - 1] if head else i
            relations[i] = relation if head else "ROOT"
        if sentence.tags:
            relations_or_none = sentence.relations or ["_"] * len(words)
            universal_of_words = universal_tags(sentence.words, sentence.tags, relations_or_none)
            for i, tag, universal_tag in zip(words, sentence.tags, universal_of_words, strict=True):
                tags[i], universal[i] = tag, universal_tag
    previous_word = positions[0][0] if positions else 0
    for token in doc:
        if normalise_text(token.text).strip():
            previous_word = token.i
        else:
            heads[token.i] = previous_word
    columns = {}
    string_id = doc.vocab.strings.add
    if parser.dependency is not None:
        columns["HEAD"] = (heads - np.arange(len(doc))).astype(np.int64).view(np.uint64)
        columns["DEP"] = np.array([*map(string_id, relations)], np.uint64)
    if parser.constituency is not None:
        columns["TAG"] = np.array([*map(string_id, tags)], np.uint64)
        columns["POS"] = np.array([*map(string_id, universal)], np.uint64)
    doc.from_array(list(columns), cast("Ints2d", np.stack(list(columns.values()), axis=1)))


def _constituents(doc: Doc, positions: Positions, sentences: list[ParsedSentence]) -> ConstituentData:
    """Return the constituents of a document as the record that benepar's extensions read."""
    from benepar.integrations.spacy_extensions import ConstituentData

    from corpora.text import CHAIN_JOINER

    bounds = [0, *(words[0] for words in positions[1:]), len(doc)]
    rows: list[tuple[int, int, str]] = [] if positions else [(0, len(doc), "")]
    for words, sentence, first, end in zip(positions, sentences, bounds, bounds[1:], strict=False):
        # As in benepar, every token is a constituent, whose label is empty if the parser gave none. The span
        # of a sentence has the white space around it.
        spans = sentence.spans or []
        labels = {(i, i + 1): "" for i in range(first, end)}
        labels |= {(words[a], words[b - 1] + 1): label for a, b, label in spans[1:]}
        labels[first, end] = spans[0][2]
        preorder = sorted(labels, key=lambda span: (span[0], -span[1]))
        rows += [(a, b, labels[a, b]) for a, b in preorder]
    starts, ends, names = zip(*rows, strict=True)
    distinct_names, ids = np.unique(names, return_inverse=True)
    first_row = np.full(len(doc), -1)  # of the constituents that begin at each token
    for row, token in reversed(list(enumerate(starts))):
        first_row[token] = row
    chains = [tuple(name.split(CHAIN_JOINER)) if name else () for name in distinct_names.tolist()]
    return ConstituentData(np.array(starts), np.array(ends), ids, first_row, chains)


def _encode_constituents(value: Any, chain: Any = None) -> Any:
    """Return the record of constituents as a type of msgpack, for ``Doc.to_bytes`` and other processes."""
    if type(value).__name__ == "ConstituentData":
        return {"multiview_constituents": list(vars(value).values())}
    return value if chain is None else chain(value)


def _decode_constituents(value: Any, chain: Any = None) -> Any:
    if "multiview_constituents" not in value:
        return value if chain is None else chain(value)
    from benepar.integrations.spacy_extensions import ConstituentData

    *arrays, names = value["multiview_constituents"]
    return ConstituentData(*arrays, [tuple(name) for name in names])


srsly.msgpack_encoders.register("multiview_constituents", func=_encode_constituents)
srsly.msgpack_decoders.register("multiview_constituents", func=_decode_constituents)


def noun_chunks(part: Doc | Span) -> Iterator[tuple[int, int, int]]:
    """Yield the start, end and label of each noun with its determiners, numerals, owners and adjectives."""
    label = part.doc.vocab.strings.add("NP")
    for noun in part:
        is_inner = _is_within_chunk(noun) or noun.dep_ in ("expl", "fixed")
        if is_inner or noun.pos_ not in ("NOUN", "PRON", "PROPN"):
            continue
        first, end = noun.i, noun.i + 1
        for child in reversed(list(noun.lefts)):
            if _is_within_chunk(child):
                first = child.left_edge.i
            elif child.dep_ != "punct":
                break
        for child in noun.rights:
            if child.dep_ not in ("flat", "goeswith"):
                break
            end = child.right_edge.i + 1
        yield first, end, label


def _is_within_chunk(token: Token) -> bool:
    return token.dep_ in CHUNK_RELATIONS or token.dep_.partition(":")[0] in CHUNK_RELATIONS
