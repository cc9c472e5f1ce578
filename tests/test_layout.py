"""The layout is the pipeline: import direction, adapters, file length, no pickle."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = ("corpora", "parsing", "multiview", "senteval_runner")
FILES = [path for package in PIPELINE for path in sorted((ROOT / package).rglob("*.py"))]
IDS = [str(path.relative_to(ROOT)) for path in FILES]
# Each outside library is imported in these files alone.
ADAPTERS = {
    "supar": {"parsing/libraries/supar.py"},
    "benepar": {"parsing/libraries/benepar.py"},
    "spacy": {"corpora/tokenize.py"},
    "dgl": {"multiview/engines/dgl_engine.py"},
    "ray": {"parsing/pipeline/ray.py"},
    "triton": {"multiview/engines/kernels_triton.py"},
}
MAX_LINES = 450


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_imports_point_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    later = set(PIPELINE[PIPELINE.index(package) + 1 :]) | {"benchmarks", "tests"}
    assert not imports(path) & later


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_outside_libraries_stay_in_their_adapter(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    for library, adapters in ADAPTERS.items():
        assert library not in imports(path) or name in adapters, f"{name} imports {library}"


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_nothing_executable_is_read_or_written(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.relative_to(ROOT) == Path("parsing/convert.py"):
        return  # the converter that --trust-pickle asks for by name
    assert not re.search(
        r"(^|[^a-z_])(pickle|dill|joblib)\.(load|dump)|torch\.(load|save)\(|allow_pickle=True", text
    )


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in sorted(ROOT.rglob("*.py"))
        if not p.relative_to(ROOT).parts[0].startswith((".", "runs", "build"))
    ],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_files_stay_readable_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES
