"""The default corpus: real English that every machine with this program already has.

The Python Language Reference (``pydoc_data.topics``) and the docstrings of the standard library and of
this project's installed requirements, paragraph by paragraph in source order. Modules are parsed with
``ast``, never imported. A document is a module (its docstring and its functions') or a class (its
docstring and its methods'). Repeated paragraphs are skipped, because docstrings are inherited and
copied. ``train`` and ``heldout`` are disjoint sets of top-level packages.

Of a docstring those paragraphs are kept that read like English sentences, without their markup::

    The order of ``items``, see :func:`sorted`, is *stable*.  ->  The order of items, see sorted, is stable.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import re
import sysconfig
import warnings
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from corpora.support.errors import UserError
from corpora.support.files import sha256_file
from corpora.text import Corpus, Document, Sentence, Tokenizer, in_pieces

SPLITS = ("train", "heldout", "all")
TOPICS = "pydoc_data/topics.py"
"""The Python Language Reference."""
PACKAGES = (
    *("torch", "numpy", "scipy", "h5py", "safetensors", "numba", "sklearn", "joblib", "spacy", "thinc"),
    *("supar", "benepar", "nltk", "tqdm", "tyro", "sympy", "networkx"),
)
"""Required packages and some of their requirements, in reading order; missing ones are skipped.

transformers is not read: it has 53 MB of source, and most of its text repeats from model to model.
"""
_SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "testing", "_testing", "idle_test", "lib2to3", "site-packages", "_vendor", "vendor"}
    | {"externals", "third_party", "__pycache__", "turtledemo", "idlelib", "ensurepip", "encodings"}
    | {"_inductor", "_dynamo", "_functorch", "_refs", "_decomp"}  # torch internals: 15 MB, little prose
)
# Functions that attach a docstring to compiled code; the text is an argument.
_ADDERS = frozenset({"add_docstr", "add_newdoc", "add_docstr_all", "_add_docstr"})
_BODIES = ("body", "handlers", "orelse", "finalbody", "cases")
"""Fields that hold statements; expressions, nine tenths of all nodes, are not looked at."""


Sources = dict[str, Path]
"""Python files by their path below a library folder, e.g. ``numpy/lib/_npyio_impl.py``."""


def pydocs_corpus(*, split: str = "train", tokenize: str = "spacy", limit: int | None = None) -> Corpus:
    """The documentation on this machine as a corpus.

    Args:
        split: ``train``, ``heldout`` or ``all``.
        tokenize: ``spacy`` or ``space``.
        limit: sentences to keep, or None.

    Raises:
        UserError: another split.
    """
    if split not in SPLITS:
        raise UserError(f"--split {split}: must be train, heldout or all")
    tokenizer = Tokenizer(tokenize, running=True)

    def documents() -> Iterator[Document]:
        for identifier, paragraphs in fresh_documents(sources()):
            if split in ("all", split_of(identifier)):
                found = (Sentence(tokens) for text in paragraphs for tokens in tokenizer.sentences(text))
                yield from in_pieces(identifier, found)

    about = {"reader": "pydocs-2", "format": "running", "tokenizer": tokenizer.identity, "split": split}
    return Corpus("pydocs", documents, about=about, hash_input=lambda: source_hash(sources()), limit=limit)


def split_of(name: str) -> str:
    """``heldout`` or ``train``, by a hash of the top-level package's name.

    Package sizes differ by a factor of 10,000, so the salt was chosen by hand: it holds out 12 % of the
    paragraphs (networkx, numba, tkinter, h5py, thinc and 17 small packages).
    """
    package = name.partition("/")[0].partition(".")[0]
    return "heldout" if hashlib.sha256(f"heldout-36:{package}".encode()).digest()[0] < 26 else "train"


def sources() -> Sources:
    """Every Python file to read, in order: the reference, the standard library, the packages."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found = {TOPICS: library / TOPICS}
    for entry in sorted(library.iterdir(), key=lambda path: path.name):
        if entry.name != "pydoc_data":
            found.update(_files(library, entry))
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)  # locates a top-level package without importing it
        for folder in (spec.submodule_search_locations or []) if spec else []:
            found.update(_files(Path(folder).parent, Path(folder)))
    return found


def _files(root: Path, entry: Path) -> Iterator[tuple[str, Path]]:
    """The Python files of a top-level module or package, without tests and vendored code."""
    if entry.name in _SKIPPED_FOLDERS or not re.fullmatch(r"\w+(\.py)?", entry.name):
        return
    files = [entry] if entry.is_file() else entry.rglob("*.py")
    for parts, path in sorted((path.relative_to(root).parts, path) for path in files if path.suffix == ".py"):
        if not _SKIPPED_FOLDERS & set(parts):
            yield "/".join(parts), path


def source_hash(files: Sources) -> str:
    """SHA-256 over names and bytes of the files."""
    whole = hashlib.sha256()
    for name, path in files.items():
        whole.update(f"{name}\0{sha256_file(path)}\n".encode())
    return whole.hexdigest()


def fresh_documents(files: Sources) -> Iterator[tuple[str, list[str]]]:
    """(id, new paragraphs) of each document of every split.

    Paragraphs are compared across all packages, so no held-out paragraph copies a training one.
    """
    seen: set[bytes] = set()
    for name, path in files.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes in other people's strings
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue  # of another version of Python
        for identifier, docstrings in _topics(tree) if name == TOPICS else _scopes(tree):
            fresh = []
            for text in (text for docstring in docstrings for text in prose(docstring)):
                key = hashlib.blake2b(text.lower().encode(), digest_size=16).digest()
                if key not in seen:
                    seen.add(key)
                    fresh.append(text)
            if fresh:
                yield name + identifier, fresh


def _topics(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """``topics = {"name": "text", ...}``: a document per topic."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                    yield f":{key.value!s}", [str(value.value)]


def _scopes(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """(id, docstrings) of the module, then of each class, those inside others after them."""
    classes: deque[ast.AST] = deque([tree])
    while classes:
        scope = classes.popleft()
        docstrings: list[str] = []
        waiting = deque([scope])
        while waiting:
            node = waiting.popleft()
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstrings += filter(None, [ast.get_docstring(node, clean=False)])
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                docstrings += _added(node.value)
            inner = [child for field in _BODIES for child in getattr(node, field, ())]
            classes += [child for child in inner if isinstance(child, ast.ClassDef)]
            waiting.extendleft(child for child in inner[::-1] if not isinstance(child, ast.ClassDef))
        yield f":{scope.name}@{scope.lineno}" if isinstance(scope, ast.ClassDef) else "", docstrings


def _added(call: ast.Call) -> Iterator[str]:
    """The long strings in ``add_docstr(f, "...")``, also with ``.format()`` called on them."""
    name = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
    if name in _ADDERS:
        for node in ast.walk(call):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 40:
                yield node.value


# Markup to English

_LEAD = re.compile(r"^\s*(?:[-*+•]|\(?\w{1,2}[.)]|:\w[^:]*:|[\w*, ]{1,40}(?:\([^)]*\))?:(?=\s))\s*")
"""A bullet, a field, or the name of an argument."""
_NO_PROSE = re.compile(r"^\s*(?:>>>|\.\.\.|\$ |In \[|[+|=~^-]{2}|\.\. )|\S {3,}\S|\s:\s|\s\|\s")
"""Doctests, rules and tables, directives, NumPy's ``name : type``."""
_MARKUP = re.compile(r"(?::[\w:+.-]+:)?`{1,2}[~!]?([^`<]+?)(?:\s*<[^`>]*>)?`{1,2}_{0,2}")
"""Roles, links and literals; the group is what is shown."""
_EMPHASIS = re.compile(r"(?<![\w*])\*{1,2}([^\s*][^*]*)\*{1,2}(?![\w*])|\s*\[#?\w{1,8}\]_()")
"""Emphasis, whose text stays, and footnotes, of which nothing does."""
_WORD = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*")
_CODE = re.compile(r"[{}<>\\=_@$#]|\(\)|->|::|\w\(|\]\[")
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
        text = _MARKUP.sub(r"\1", _LEAD.sub("", " ".join(block.split())))
        text = _EMPHASIS.sub(r"\1\2", text).replace("::", ":")
        if is_english(text):
            yield text


def _blocks(text: str) -> Iterator[str]:
    """Runs of lines of one indentation, without code: what is deeper than a line that ends in ``::``."""
    block: list[str] = []
    skip_below, before = 999, 0
    for line in [*text.split("\n"), ""]:
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent > skip_below:
            continue
        is_prose = bool(line.strip()) and not _NO_PROSE.search(line)
        starts = _LEAD.match(line) or (indent != before and not (block and _LEAD.match(block[0])))
        if block and (starts or not is_prose):
            yield " ".join(block)
            block = []
        if is_prose:
            block.append(line)
        if line.strip():
            before = indent
            skip_below = indent if line.rstrip().endswith("::") or line.lstrip().startswith(".. ") else 999
    assert not block


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
    return function_words >= 0.15 * len(words) and len(_CODE.findall(text)) <= 0.1 * len(tokens)
