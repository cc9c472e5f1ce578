"""The documentation builds, its links lead somewhere, the commands it shows exist with their options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.test_commands import PIPELINE, ROOT, commands

COMMAND = re.compile(
    r"python -m ((?:parsing|multiview|senteval_runner|studies)(?:\.\w+)+)((?:\\\n|[^`\n|#])*)"
)
SUBCOMMANDS = ("dep", "const", "build", "run")
FIRST_WORD = {
    "parsing.train": "dep",
    "parsing.convert": "dep",
    "parsing.score": "dep",
    "studies.analogies": "run",
}
"""Whose options are meant where a line names none."""


def shown_commands() -> list[tuple[Path, str, str]]:
    """(page, module, rest of the line) of README, documentation and the usage lines of docstrings."""
    found = []
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        if not path.name.startswith("failures"):  # those quote messages, shortened
            found += [(path, *shown) for shown in COMMAND.findall(path.read_text(encoding="utf-8"))]
    for package in PIPELINE:
        for path in (ROOT / package).rglob("*.py"):
            usage = re.findall(r"^ +(python -m (?:\\\n|.)*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            found += [(path, *shown) for shown in COMMAND.findall("\n".join(usage))]
    return found


def shown_options() -> dict[str, dict[str, Path]]:
    """Module and subcommand -> option -> a page that gives it."""
    found: dict[str, dict[str, Path]] = defaultdict(dict)
    for path, module, rest in shown_commands():
        words = [word for word in rest.split()[:1] if word in SUBCOMMANDS] or [FIRST_WORD.get(module, "")]
        options = re.findall(r"(?<!\S)--[a-z][\w.-]*\w", rest)
        found[f"{module} {words[0]}".rstrip()] |= dict.fromkeys(options, path)
    return found


def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) >= 4
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_commands_that_are_shown_exist() -> None:
    assert {name.split()[0] for name in shown_options()} <= set(commands())


@pytest.mark.parametrize("name", sorted(name for name, options in shown_options().items() if options))
def test_options_that_are_shown_exist(name: str, command) -> None:  # type: ignore[no-untyped-def]
    text = command(*name.split(), "--help").stdout
    for option, page in shown_options()[name].items():
        assert re.search(rf"{option}(?![\w.-])", text), f"{page.relative_to(ROOT)}: {name} has no {option}"


def test_tests_that_pages_name_exist() -> None:
    named = set()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        named |= set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text(encoding="utf-8")))
    missing = [
        f"{file}::{name}" for file, name in sorted(named) if f"def {name}(" not in (ROOT / file).read_text()
    ]
    assert len(named) > 30 and not missing
