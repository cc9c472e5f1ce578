"""Break each equation once and demand that a test fails: ``make mutations``.

    python -m tools.mutations                      # all of them, writes docs/mutations.md
    python -m tools.mutations --only softmax       # those whose equation or file holds a word

Each substitution of ``mutations.toml`` is made in a copy of the packages; then the tests that guard the
equation run there until the first one fails, and the file is restored. A mutation that survives is a hole in
the tests: exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COPIED = (
    *("corpora", "parsing", "multiview", "senteval_runner", "studies", "tests", "tools", "docs"),
    "benchmarks",
    *("pyproject.toml", "README.md", "setup.py"),
)
TABLE = ROOT / "docs/mutations.md"
HEADER = """# Mutations

Each equation below was broken once, in a copy of the packages, by the substitution shown; the test named
was the first to fail. `make mutations` does it again and fails if a mutation survives.

| equation | file | broken as | caught by |
|---|---|---|---|
"""


class Mutation(NamedTuple):
    """One equation, broken once."""

    equation: str
    file: str
    old: str
    new: str
    tests: list[str]
    """Files of tests that guard the equation."""


def read_mutations() -> list[Mutation]:
    """The table of ``mutations.toml``."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return [Mutation(**entry) for entry in tomllib.loads(text)["mutation"]]


def copy_project(folder: Path) -> None:
    """Copy what the tests need, with compiled functions; these stay valid because times are kept."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name)
        else:
            shutil.copy2(ROOT / name, folder / name)


def first_failure(folder: Path, tests: list[str]) -> str:
    """Run tests in a copy until one fails: its name, "" when all pass, or what stopped pytest."""
    options = ["-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
    # No mutation touches the DGL reference, and it is by far the slowest engine.
    command = [sys.executable, "-m", "pytest", *options, "-k", "not dgl", *tests]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode == 0:
        return ""
    return found[1] if found else f"pytest ended with {done.returncode}: {done.stdout[-300:]}"


def try_mutation(mutation: Mutation, folder: Path) -> str:
    """Break one equation in the copy; the test that failed, or "" if none did."""
    path = folder / mutation.file
    text, times = path.read_text(encoding="utf-8"), path.stat()
    assert text.count(mutation.old) == 1, f"{mutation.old!r} must occur exactly once in {mutation.file}"
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        return first_failure(folder, mutation.tests)
    finally:  # restore the time too: numba uses it to tell whether compiled functions are stale
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def row(mutation: Mutation, test: str) -> str:
    """A line of the table."""

    def code(text: str) -> str:
        words = " ".join(text.split()).replace("|", "\\|")
        return f"``{words}``"

    caught = test.removeprefix("tests/").replace("|", "\\|")
    broken = f"{code(mutation.old)} → {code(mutation.new)}"
    return f"| {mutation.equation} | `{mutation.file}` | {broken} | `{caught}` |\n"


def main() -> int:
    """Try the mutations that were asked for."""
    description = (__doc__ or "").split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tools.mutations", description=description)
    parser.add_argument("--only", default="", help="a word in the equation or the file name")
    options = parser.parse_args()
    chosen = [m for m in read_mutations() if options.only in m.equation or options.only in m.file]
    rows, survived, passed = [], 0, set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_project(folder)
        for mutation in chosen:
            if tuple(mutation.tests) not in passed:
                broken = first_failure(folder, mutation.tests)
                if broken:
                    print(f"{broken} fails before any mutation")
                    return 1
                passed.add(tuple(mutation.tests))
            test = try_mutation(mutation, folder)
            survived += not test
            print(f"{mutation.equation:<52} {test or 'SURVIVED'}", flush=True)
            rows.append(row(mutation, test))
    print(f"{len(chosen)} mutations, {len(chosen) - survived} caught")
    if not options.only and not survived:
        TABLE.write_text(HEADER + "".join(rows), encoding="utf-8")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
