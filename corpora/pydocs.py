"""The default corpus: real English that every machine with this program already has.

The Python Language Reference (``pydoc_data.topics``) and the docstrings of the standard library and of
this project's installed requirements, paragraph by paragraph in source order. Modules are parsed with
``ast``, never imported. A document is a module (its docstring and its functions') or a class (its
docstring and its methods'). Repeated paragraphs are skipped, because docstrings are inherited and
copied. ``train`` and ``heldout`` are disjoint sets of top-level packages.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import re
import sysconfig
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpora.docstrings import prose
from corpora.documents import Document
from corpora.inputs import Line
from corpora.stream import Counts, StreamCorpus, in_pieces
from corpora.support.errors import UserError
from corpora.text import running_sentences
from corpora.tokenize import make_tokenizer

SPLITS = ("train", "heldout", "all")
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


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file of the corpus."""

    package: str
    """Top-level package, which determines the split."""
    name: str
    """Path below its library folder, e.g. ``numpy/lib/_npyio_impl.py``."""
    path: Path


def pydocs_corpus(
    *, split: str | None = None, format: str = "running", tokenize: str = "spacy", limit: int | None = None
) -> StreamCorpus:
    """The documentation on this machine as a corpus.

    Args:
        split: ``train`` (the default), ``heldout`` or ``all``.
        format: must be ``running``.
        tokenize: ``spacy`` or ``space``.
        limit: sentences to keep, or None.

    Raises:
        UserError: another split or format.
    """
    split = split or "train"
    if split not in SPLITS:
        raise UserError(f"--split {split}: must be train, heldout or all")
    if format != "running":
        raise UserError(f"--format {format}: pydocs is always running text")
    tokenizer = make_tokenizer(tokenize, running=True)
    read = running_sentences(tokenizer)

    def documents(counts: Counts) -> Iterator[Document]:
        for package, identifier, paragraphs in fresh_documents(sources(), counts):
            if split in ("all", split_of(package)):
                lines = (Line(number, text) for number, text in enumerate(paragraphs, start=1))
                yield from in_pieces(identifier, (s for line in lines for s in read(line)))

    about = {"reader": "pydocs-1", "format": format, "tokenizer": tokenizer.identity, "split": split}
    return StreamCorpus(
        "pydocs", documents, about=about, hash_input=lambda: source_hash(sources()), limit=limit
    )


def split_of(package: str) -> str:
    """``heldout`` or ``train``, by a hash of the package's name.

    Package sizes differ by a factor of 10,000, so the salt was chosen by hand: it holds out 12 % of the
    paragraphs (networkx, numba, tkinter, h5py, thinc and 17 small packages).
    """
    return "heldout" if hashlib.sha256(f"heldout-36:{package}".encode()).digest()[0] < 26 else "train"


def sources() -> list[Source]:
    """Every Python file to read, in order: the reference, the standard library, the packages."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found = [Source("pydoc_data", "pydoc_data/topics.py", library / "pydoc_data" / "topics.py")]
    for entry in sorted(library.iterdir(), key=lambda path: path.name):
        if entry.name != "pydoc_data":
            found.extend(_files(library, entry))
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)  # locates a top-level package without importing it
        for folder in (spec.submodule_search_locations or []) if spec else []:
            found.extend(_files(Path(folder).parent, Path(folder)))
    return found


def _files(root: Path, entry: Path) -> Iterator[Source]:
    """The Python files of a top-level module or package, without tests and vendored code."""
    if entry.name in _SKIPPED_FOLDERS or not re.fullmatch(r"\w+(\.py)?", entry.name):
        return
    files = [entry] if entry.is_file() else entry.rglob("*.py")
    for parts, path in sorted((path.relative_to(root).parts, path) for path in files if path.suffix == ".py"):
        if not _SKIPPED_FOLDERS & set(parts):
            yield Source(parts[0].removesuffix(".py"), "/".join(parts), path)


def source_hash(files: list[Source]) -> str:
    """SHA-256 over names and bytes of the files."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.name}\0{hashlib.sha256(file.path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def fresh_documents(files: list[Source], counts: Counts) -> Iterator[tuple[str, str, list[str]]]:
    """(package, id, new paragraphs) of each document of every split.

    Paragraphs are compared across all packages, so no held-out paragraph copies a training one.
    """
    seen: set[bytes] = set()
    for file in files:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes in other people's strings
                tree = ast.parse(file.path.read_bytes())
        except (SyntaxError, ValueError):
            counts.other["files that are no Python of this version"] += 1
            continue
        for identifier, docstrings in _documents(tree, file):
            paragraphs = [text for docstring in docstrings for text in prose(docstring)]
            fresh = []
            for text in paragraphs:
                key = hashlib.blake2b(text.lower().encode(), digest_size=16).digest()
                if key in seen:
                    counts.other["repeated paragraphs left out"] += 1
                else:
                    seen.add(key)
                    fresh.append(text)
            if fresh:
                yield file.package, identifier, fresh


def _documents(tree: ast.Module, file: Source) -> Iterator[tuple[str, list[str]]]:
    """The module's document, then one per class, in source order."""
    if file.package == "pydoc_data":
        yield from _topics(tree, file)
        return
    yield file.name, list(_docstrings(tree))
    for node in _statements(tree):
        if isinstance(node, ast.ClassDef):
            yield f"{file.name}:{node.name}@{node.lineno}", list(_docstrings(node))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """What can hold a class, in the order of ``ast.walk``, without the expressions: nine tenths of all nodes.

    Over a sixth of all files ``ast.walk`` takes 2.2 s of processor time, this 0.4; reading takes about 11.
    """
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        yield node
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            waiting.extend(getattr(node, field, ()))


def _topics(tree: ast.Module, file: Source) -> Iterator[tuple[str, list[str]]]:
    """``topics = {"name": "text", ...}``: a document per topic."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                    yield f"{file.name}:{key.value!s}", [str(value.value)]


_Scope = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _docstrings(scope: _Scope) -> Iterator[str]:
    """The docstrings of a scope and of the functions in it; classes are separate documents."""
    own = ast.get_docstring(scope, clean=False)
    if own:
        yield own
    for node in scope.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from _added(node.value)


def _added(call: ast.Call) -> Iterator[str]:
    """The long strings in ``add_docstr(f, "...")``, also with ``.format()`` called on them."""
    name = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
    if name in _ADDERS:
        for node in ast.walk(call):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 40:
                yield node.value
