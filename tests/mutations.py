"""Break each equation once and demand that a test fails: ``make mutations``.

    python -m tests.mutations                      # all of them, writes docs/mutations.md
    python -m tests.mutations --only softmax       # those whose equation holds a word

Each substitution of ``mutations.toml`` is made in a copy of the packages of its own; then the tests that
guard the equation run there until the first one fails. A mutation that survives is a hole in the tests: exit
code 1. Processes are forked from one that has the libraries loaded already.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import tomllib
from functools import partial
from pathlib import Path
from typing import NamedTuple


class Mutation(NamedTuple):
    """One equation, broken once."""

    equation: str
    file: str
    old: str
    new: str
    tests: list[str]
    """Files of tests that guard the equation."""


ROOT = Path(__file__).resolve().parent.parent
COPIED = (
    "corpora",
    "parsing",
    "multiview",
    "senteval_runner",
    "tests",
    "pyproject.toml",
    "README.md",
    "setup.py",
)
TABLE = ROOT / "docs/mutations.md"
HEADER = """# Mutations

Each equation below was broken once, in a copy of the packages, by the substitution shown; the test named
was the first to fail. `make mutations` does it again and fails if a mutation survives.

| equation | file | broken as | caught by |
|---|---|---|---|
"""


def read_mutations() -> list[Mutation]:
    """The table of ``mutations.toml``."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return [Mutation(**entry) for entry in tomllib.loads(text)["mutation"]]


def copy_project(folder: Path, source: Path = ROOT) -> None:
    """Copy what the tests need, compiled functions included; times are kept, so those stay valid."""
    for name in COPIED:
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name)
        else:
            shutil.copy2(source / name, folder / name)


def first_failure(folder: Path, tests: list[str]) -> str:
    """Run tests in a copy until one fails: its name, "" when all pass, or what stopped pytest."""
    import pytest

    for name in [n for n in sys.modules if n.split(".")[0] in COPIED]:
        del sys.modules[name]
    os.chdir(folder)
    sys.path[:] = [str(folder), *(p for p in sys.path if p not in ("", str(ROOT)))]
    output = io.StringIO()
    # DGL is the reference that nothing here breaks, and by far the slowest engine.
    arguments = [
        "-x",
        "-p",
        "no:cacheprovider",
        "--no-header",
        "-rfE",
        "--tb=no",
        "-k",
        "not dgl",
        "--rootdir",
        str(folder),
    ]
    with contextlib.redirect_stdout(output):
        code = pytest.main([*arguments, *tests])
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", output.getvalue(), re.MULTILINE)
    if code == 0:
        return ""
    return found[1] if found else f"pytest ended with {code}: {output.getvalue()[-300:]}"


def try_mutation(mutation: Mutation, prepared: Path) -> str:
    """Break one equation in a copy of its own; the test that failed, or "" if none did."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_project(folder, prepared)
        path = folder / mutation.file
        text = path.read_text(encoding="utf-8")
        assert text.count(mutation.old) == 1, f"{mutation.old!r} does not stand once in {mutation.file}"
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        return first_failure(folder, mutation.tests)


def row(mutation: Mutation, test: str) -> str:
    """A line of the table."""

    def code(text: str) -> str:
        words = " ".join(text.split()).replace("|", "\\|")
        return f"``{words}``"

    caught = test.removeprefix("tests/").replace("|", "\\|")
    where = mutation.file.replace("_", "\\_")
    return f"| {mutation.equation} | {where} | {code(mutation.old)} → {code(mutation.new)} | `{caught}` |\n"


def main() -> int:
    """Try the mutations that were asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutations", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", default="", help="word that the equation or file holds")
    parser.add_argument("--workers", type=int, default=2, help="mutations tried at a time")
    options = parser.parse_args()
    chosen = [m for m in read_mutations() if options.only in m.equation or options.only in m.file]
    survived = 0
    # A process per mutation, forked with the libraries loaded: importing them took longer than most tests.
    for name in ("numba", "scipy.stats", "sklearn.linear_model", "torch"):
        importlib.import_module(name)
    context = multiprocessing.get_context("fork")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        prepared = Path(name)
        copy_project(prepared)
        tests = list(dict.fromkeys(word for m in chosen for word in m.tests))
        # One task per process: a mutated module must not stay loaded.
        with context.Pool(options.workers, maxtasksperchild=1) as workers:
            broken = workers.apply(first_failure, (prepared, tests))
            if broken:
                print(f"{broken} fails before any mutation")
                return 1
            jobs = workers.imap(partial(try_mutation, prepared=prepared), chosen)
            for mutation, test in zip(chosen, jobs, strict=True):
                survived += not test
                print(f"{mutation.equation:<52} {test or 'SURVIVED'}", flush=True)
                rows.append(row(mutation, test))
    print(f"{len(chosen)} mutations, {len(chosen) - survived} caught")
    if not options.only and not survived:
        TABLE.write_text(HEADER + "".join(rows), encoding="utf-8")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
