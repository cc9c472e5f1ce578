"""Reads a tree in brackets, as ``to_ptb`` and the spaCy component's ``parse_string`` write it."""

from corpora import brackets
from parsing.trees.sentences import ParsedSentence


def read_tree(text: str) -> ParsedSentence:
    """Return a bracketed tree as a sentence. Raises UserError if the text is not one tree."""
    sentence = brackets.read_tree(text)
    return ParsedSentence(
        words=list(sentence.tokens),
        flags=0,
        heads=None,
        relations=None,
        tags=list(sentence.tags or ()),
        spans=list(sentence.spans or ()),
    )
