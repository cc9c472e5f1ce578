"""The parsers as a spaCy component.

    nlp = spacy.blank("en")
    nlp.add_pipe("multiview_parser")            # config={"dep": "builtin", "const": "builtin"}
    doc = nlp("The cat sat on the mat. It slept.")
    doc[1].head, doc[1].dep_, doc[1].tag_       # and doc.sents
    next(doc.sents)._.parse_string              # constituents: benepar's own extensions

Sentences that an earlier component found are kept; otherwise spaCy's sentencizer rule splits. Tokens of white
space or of characters without width, which parsers cannot take, hang from the word before them (at the start
of a document, from the first word) with the relation ``dep`` and the tag ``_SP``.

Every pipeline that spaCy makes imports this module, ours for tokens too, so it imports nothing heavy (with
benepar's extensions and what they import it took half of the time to a first sentence).
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, cast

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from corpora.characters import plain

if TYPE_CHECKING:
    from benepar.integrations.spacy_extensions import ConstituentData
    from thinc.types import Ints2d

    from parsing.text_parser import TextParser
    from parsing.trees.sentences import Trees

Places = list[list[int]]
"""The words of each parsed sentence, as positions in the document."""
Row = tuple[int, int, str]


@Language.factory(
    "multiview_parser",
    default_config={"dep": "builtin", "const": "builtin", "max_tokens": 128},
    assigns=["token.head", "token.dep", "token.tag", "token.is_sent_start", "doc.sents"],
)
def make(nlp: Language, name: str, dep: str | None, const: str | None, max_tokens: int) -> ParserComponent:
    """The component; its options are those of :func:`parsing.load`."""
    from parsing.text_parser import load

    if nlp.lang not in ("en", "xx") and "builtin" in (dep, const):
        told = f"multiview_parser: the builtin parsers know English alone, and this pipeline is {nlp.lang!r}"
        warnings.warn(told, stacklevel=2)
    return ParserComponent(load(dep, const, max_tokens=max_tokens))


class ParserComponent:
    """Fills heads, relations, tags, sentences and constituents of a :class:`spacy.tokens.Doc`."""

    def __init__(self, parser: TextParser) -> None:
        from spacy.pipeline import Sentencizer

        import_module("benepar.integrations.spacy_extensions")  # registers the extensions
        self.parser = parser
        self._split = Sentencizer()

    def __call__(self, doc: Doc) -> Doc:
        """Parse the document in place."""
        if not doc.has_annotation("SENT_START"):
            doc = self._split(doc)
        places = [[token.i for token in span if plain(token.text).strip()] for span in doc.sents]
        places = [words for words in places if words]
        parsed = self.parser.parse([[doc[i].text for i in words] for words in places])
        if places:
            _annotate(doc, places, parsed)
        if places and self.parser.constituency is not None:
            doc._._constituent_data = _constituents(doc, places, parsed)
        return doc


def _annotate(doc: Doc, places: Places, parsed: Trees) -> None:
    """Write heads, relations and tags; the document's sentences follow from the heads."""
    heads = np.arange(len(doc))  # a token that is its own head is a root
    relations, tags = ["dep"] * len(doc), ["_SP"] * len(doc)
    for words, sentence in zip(places, parsed, strict=True):
        for i, head, relation in zip(words, sentence.heads or (), sentence.relations or (), strict=False):
            heads[i] = words[head - 1] if head else i
            relations[i] = relation if head else "ROOT"
        for i, tag in zip(words, sentence.tags or (), strict=False):
            tags[i] = tag
    before = places[0][0]
    for token in doc:
        if plain(token.text).strip():
            before = token.i
        else:
            heads[token.i] = before
    add = doc.vocab.strings.add
    columns = {}
    if parsed[0].heads is not None:
        columns["HEAD"] = (heads - np.arange(len(doc))).astype(np.int64).view(np.uint64)
        columns["DEP"] = np.array([add(name) for name in relations], np.uint64)
    if parsed[0].tags is not None:
        columns["TAG"] = np.array([add(name) for name in tags], np.uint64)
    doc.from_array(list(columns), cast("Ints2d", np.stack(list(columns.values()), axis=1)))


def _constituents(doc: Doc, places: Places, parsed: Trees) -> ConstituentData:
    """The record of a document's constituents that benepar's extensions read."""
    from benepar.integrations.spacy_extensions import ConstituentData

    from parsing.trees.brackets import CHAIN

    starts = [0, *(words[0] for words in places[1:]), len(doc)]
    rows: list[Row] = []
    for words, sentence, start, end in zip(places, parsed, starts[:-1], starts[1:], strict=True):
        # As in benepar every token is a constituent, one without a label if the parser gave none, and the
        # whole sentence covers the white space around it.
        spans = sentence.spans or []
        here = {(i, i + 1): "" for i in range(start, end)}
        here |= {(words[a], words[b - 1] + 1): label for a, b, label in spans[1:]}
        here[start, end] = spans[0][2]
        preorder = sorted(here, key=lambda row: (row[0], -row[1]))
        rows += [(a, b, here[a, b]) for a, b in preorder]
    names = list(dict.fromkeys(label for _, _, label in rows))
    ids = {name: i for i, name in enumerate(names)}
    first = np.full(len(doc), -1)
    for row, (start, _, _) in reversed(list(enumerate(rows))):
        first[start] = row
    return ConstituentData(
        np.array([start for start, _, _ in rows], int),
        np.array([end for _, end, _ in rows], int),
        np.array([ids[label] for _, _, label in rows], int),
        first,
        [tuple(name.split(CHAIN)) if name else () for name in names],
    )
