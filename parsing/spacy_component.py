"""The parsers as a spaCy component.

    nlp = spacy.blank("en")
    nlp.add_pipe("multiview_parser")            # config={"dep": "builtin", "const": "builtin"}
    doc = nlp("The cat sat on the mat. It slept.")
    doc[1].head, doc[1].dep_, doc[1].tag_       # and doc.sents
    next(doc.sents)._.parse_string              # constituents: benepar's own extensions

Sentences that an earlier component found are kept; otherwise spaCy's sentencizer rule splits.

Every pipeline that spaCy makes imports this module, ours for tokens too, so it imports nothing heavy (with
benepar's extensions and what they import it took half of the time to a first sentence).
"""

from __future__ import annotations

from collections.abc import Callable

from spacy.language import Language
from spacy.tokens import Doc

from parsing.networks.config import Precision

NAME = "multiview_parser"


@Language.factory(
    NAME,
    default_config={"dep": "builtin", "const": "builtin", "precision": "fp32", "max_tokens": 128},
    assigns=["token.head", "token.dep", "token.tag", "token.is_sent_start", "doc.sents"],
)
def make(
    nlp: Language, name: str, dep: str | None, const: str | None, precision: Precision, max_tokens: int
) -> Callable[[Doc], Doc]:
    """The component; its options are those of :func:`parsing.load`."""
    from parsing.spacy_documents import ParserComponent
    from parsing.text_parser import load

    return ParserComponent(load(dep, const, precision=precision, max_tokens=max_tokens))
