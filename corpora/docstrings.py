"""Documentation markup to paragraphs of plain English: reStructuredText, NumPy and Google styles.

    The order of ``items``, see :func:`sorted`, is *stable*.  ->  The order of items, see sorted, is stable.

Code, doctests, signatures, tables, headings, field names and grammar are dropped. What is left of a block
is kept as a paragraph if it is mostly words, contains English function words, and is as long as a sentence.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_UNDERLINE = re.compile(r"^\s*([=\-~^\"'`#*+.:_])\1{2,}\s*$")
_TABLE = re.compile(r"^\s*[+|]|[=\-]{3,}\s+[=\-]{3,}|\s\|\s")
_BORDER = re.compile(r"^\s*={2,}(\s+={2,})+\s*$")
_DOCTEST = re.compile(r"^\s*(>>>|\.\.\.(\s|$)|In \[|Out\[|\$ |% |# |C:\\)")
_DIRECTIVE = re.compile(r"^\s*\.\.(\s|$)")
_PROSE_DIRECTIVE = re.compile(
    r"^\s*\.\. (note|warning|tip|important|caution|seealso|attention|hint)::\s*(.*)$"
)
_BULLET = re.compile(r"^\s*(?:[-*+•]|\(?\d{1,2}[.)]|\(?[a-z][.)])\s+")
_FIELD = re.compile(r"^\s*:(?:\w[^:`]*):\s*")
_NAME_COLON = re.compile(r"^\s*\*{0,2}[\w.\[\]`*, |/=\"'-]{1,60}?(?:\([^)]*\))?\s*(?::| -- | - )\s+(?=\S)")
_NUMPY_FIELD = re.compile(r"^\s*[\w*., \"'{}\[\]()|`-]+\s+:\s+\S")
_ROLE = re.compile(r":(?:[a-zA-Z+.-]+:)+`~?!?\.?([^`<]*?)(?:\s*<[^`>]*>)?`")
_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}")
_LITERAL = re.compile(r"``?([^`]+)``?_{0,2}")
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,2}([^\s*](?:[^*]*[^\s*])?)\*{1,2}(?![\w*])")
_FOOTNOTE = re.compile(r"\s*\[[#\d\w]{1,8}\]_")
_SUBSTITUTION = re.compile(r"\|([^|\s][^|]*)\|_?")
_WORD = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*")
_CODE_MARK = re.compile(r"[{}<>\\=_@$#]|\(\)|->|::|\w\(|\]\[")
_FUNCTION_WORDS = frozenset(
    (
        *("a", "an", "the", "of", "to", "in", "is", "are", "be", "by", "for", "with", "that", "this", "it"),
        *("as", "on", "or", "and", "if", "not", "from", "which", "when", "can", "will", "was", "has", "have"),
        *("at", "no", "all", "any", "each", "than", "its", "their", "used", "may", "must", "but", "into"),
        *("only", "should", "you", "we"),
    )
)
MIN_WORDS = 4


def prose(docstring: str) -> Iterator[str]:
    """The English paragraphs of a docstring, in order, each on one line."""
    for block in _blocks(inspect.cleandoc(docstring.expandtabs())):
        text = _inline(" ".join(line.strip() for line in block))
        if is_english(text):
            yield text


def is_english(text: str) -> bool:
    """Whether a text is mostly words, has function words, starts and ends like a sentence, holds little code.

    The thresholds were set by reading a few hundred accepted and rejected paragraphs.
    """
    tokens = text.split()
    words = [token for token in tokens if _WORD.fullmatch(token.strip(".,;:!?()\"'“”"))]
    if len(words) < MIN_WORDS or len(words) < 0.75 * len(tokens):
        return False
    if not (text[0].isalpha() or text[0] in "\"'“(") or text[-1] not in ".!?:)\"'”" or not text[-2].isascii():
        return False
    function_words = sum(word.lower() in _FUNCTION_WORDS for word in words)
    return function_words >= 0.15 * len(words) and len(_CODE_MARK.findall(text)) <= 0.1 * len(tokens)


def _inline(text: str) -> str:
    """Replace roles, links, literals and emphasis by their text, and collapse white space."""
    text = _ROLE.sub(r"\1", text)
    text = _LINK.sub(r"\1", text)
    text = _LITERAL.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\1", text)
    text = _FOOTNOTE.sub("", text)
    text = _SUBSTITUTION.sub(r"\1", text)
    text = re.sub(r"\s+([.,;:!?])(?=\s|$)", r"\1", text.replace("::", ":"))
    return " ".join(text.split())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _blocks(text: str) -> Iterator[list[str]]:
    """Runs of lines that form one paragraph, without literal blocks and directives."""
    lines = text.split("\n")
    block: list[str] = []
    skip_below = -1  # skip lines indented deeper than this
    in_table = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        indent = _indent(line)
        is_border = bool(_BORDER.match(line))
        if is_border or in_table:
            yield from _finished(block)
            block, in_table = [], not (is_border and not following.strip())
            continue
        if not line.strip():
            yield from _finished(block)
            block = []
            continue
        if skip_below >= 0 and indent > skip_below:
            continue
        skip_below = -1
        if _is_markup(line, following):
            yield from _finished(block)
            block = []
            aside = _PROSE_DIRECTIVE.match(line)
            if aside and aside.group(2):
                block = [aside.group(2)]
            elif _DIRECTIVE.match(line) and not aside:
                skip_below = indent
            continue
        if _starts_item(line) or (block and indent != _indent(block[-1]) and not _starts_item(block[0])):
            yield from _finished(block)
            block = []
        block.append(line)
        if line.rstrip().endswith("::"):
            skip_below = indent
    yield from _finished(block)


def _starts_item(line: str) -> bool:
    return bool(_BULLET.match(line) or _FIELD.match(line) or _NAME_COLON.match(line))


def _is_markup(line: str, following: str) -> bool:
    """Headings and their underlines, table rows, doctests, directives, NumPy's ``name : type`` lines."""
    return bool(
        _UNDERLINE.match(line)
        or (_UNDERLINE.match(following) and not line.rstrip().endswith("."))
        or _TABLE.search(line)
        or _DOCTEST.match(line)
        or _DIRECTIVE.match(line)
        or (_NUMPY_FIELD.match(line) and len(line) < 90 and not line.rstrip().endswith("."))
    )


def _finished(block: list[str]) -> Iterator[list[str]]:
    """A paragraph without its leading bullet, field name or argument name."""
    if not block:
        return
    first = block[0]
    for lead in (_BULLET, _FIELD, _NAME_COLON):
        first = lead.sub("", first, count=1)
    yield [first, *block[1:]]
