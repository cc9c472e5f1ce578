"""The documentation builds, its links lead somewhere, its commands exist, its Python runs as printed."""

import contextlib
import doctest
import io
import lzma
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.senteval import write_tasks
from tests.test_commands import PIPELINE, ROOT, cli_of, commands, sources

pytestmark = pytest.mark.repo

COMMAND = re.compile(
    r"python -m ((?:parsing|multiview|senteval_runner|studies)(?:\.\w+)+)((?:\\\n|[^`\n|#])*)"
)
SUBCOMMANDS = ("dep", "const")
FIRST_WORD = {"parsing.score": "dep"}
"""Whose options are meant where a line names none."""


def shown_commands() -> list[tuple[Path, str, str]]:
    """(page, module, rest of the line) of README, documentation and the usage lines of docstrings."""
    found = []
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
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


def test_the_site_is_whole(tmp_path: Path) -> None:
    """It builds without a warning; every page is in one of five tabs by reader; nothing is fetched."""
    pytest.importorskip("mkdocstrings")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    tabs = re.findall(r'<li class="md-tabs__item.*?</a>', index, re.DOTALL)
    named = [re.sub(r"<[^>]*>", "", tab).strip() for tab in tabs]
    assert named == ["Start", "Guides", "Reference", "Studies", "Internals"]
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("nav:")[1]
    assert pages == set(re.findall(r"[\w/.-]+\.md", nav))
    fetched = r"<(?:script|img|iframe)[^>]*src=[\"']?https?:|<link[^>]*href=[\"']?https?:"
    assert [path for path in tmp_path.rglob("*.html") if re.search(fetched, path.read_text("utf-8"))] == []
    api = (tmp_path / "api.html").read_text(encoding="utf-8")
    assert ":class:" not in api and ":func:" not in api  # references are links or names
    assert 'id="multiview.model.MultiViewEncoder.encode"' in api


@pytest.mark.parametrize("name", sorted(shown_options()))
def test_options_that_are_shown_exist(name: str, capsys) -> None:
    module, *words = name.split()
    assert module in commands() and cli_of(module)([*words, "--help"]) == 0
    text = capsys.readouterr().out
    for option, page in shown_options()[name].items():
        assert re.search(rf"{option}(?![\w.-])", text), f"{page.relative_to(ROOT)}: {name} has no {option}"


FILE = re.compile(r"[\w./-]+\.(?:py|tsv|csv|toml)|[a-z_]+(?:/\w+)+/?")
NAME = re.compile(r"(?:([\w./-]+\.py)::?)?([A-Za-z_][\w.]*)(?:\[([\w()*]+)\])?")
"""``path.py:Class.method``, a name by itself, a test with its parameter."""


def defines(text: str, name: str) -> bool:
    pattern = rf"^\s*(?:def|class) {name}\b|^\s*(?:self\.)?{name}\b[^\n()]*[:=]"
    return bool(re.search(pattern, text, re.MULTILINE))


@pytest.mark.parametrize("page", sorted((ROOT / "docs/papers").glob("*.md")), ids=lambda page: page.stem)
def test_what_the_pages_of_the_papers_name_exists(page: Path) -> None:
    """Files, functions, classes, constants and tests in code marks; options by their fields."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = ["/" + path for path in tracked.stdout.split()]
    code = {path: (ROOT / path[1:]).read_text("utf-8") for path in paths if path.endswith((".py", ".toml"))}
    missing = []
    for mark in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")):
        options = re.findall(r"(?<!\S)--([a-z][\w.-]*)", mark)
        fields = [option.split(".")[-1].replace("-", "_") for option in options]
        missing += [mark for field in fields if not any(defines(text, field) for text in code.values())]
        if FILE.fullmatch(mark):  # a user's file is named in the code that reads it
            there = any(f"/{mark.rstrip('/')}/" in f"{path}/" for path in paths)
            missing += [mark] * (not there and not any(mark in text for text in code.values()))
        elif (found := NAME.fullmatch(mark)) and re.search(r"[:_]|[A-Z]\w*[a-z]|[A-Z]{4}", mark):
            path, name, parameter = found.groups()
            texts = [text for file, text in code.items() if not path or file.endswith(f"/{path}")]
            texts = [text for text in texts if all(defines(text, part) for part in name.split("."))]
            missing += [mark] * (not any(not parameter or f'"{parameter}"' in text for text in texts))
    assert missing == []


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
OURS = rf"(?:{'|'.join(PIPELINE)}|benchmarks|tools|tests)"
NAMED = re.compile(rf"(?:python -m |:(?:mod|func|class|meth|attr|data):`~?)({OURS}(?:\.\w+)+)")
LOCAL = re.compile(r":(?:func|class|meth|attr|data):`~?([A-Za-z_]\w*)`")
PLACE = re.compile(
    rf"(?<![\w/.-])((?:{OURS}|docs)/[\w/.-]*\.(?:py|md|toml|tsv|csv|svg|png))\b(?:::(\w+))?|`(tests/[\w/]+/)`"
)
TESTS = {name for text in sources("tests").values() for name in re.findall(r"def (test_\w+)", text)}
LONGEST, MOST_WORDS = 110, 25
"""Characters of a line of documentation, words of a cell of a table."""


def has(name: str) -> bool:
    """Whether a dotted name is a module of ours, or what a module defines or imports."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:end])
        file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if file.exists():
            text = file.read_text(encoding="utf-8")
            imported = re.findall(r"^ *(?:from .* )?import (.*(?:\([^)]*\))?)", text, re.MULTILINE)
            known = set(re.findall(r"\w+", " ".join(imported)))
            return all(part in known or defines(text, part) for part in parts[end:])
    return False


def stale(file: str, text: str) -> list[str]:
    """What a page or a docstring refers to and is not there; EMP's page names tests from ``tests/`` on."""
    names = [name for name in NAMED.findall(text) if not has(name)]
    if file.endswith(".py"):  # a name without a module is of the same file
        names += [name for name in LOCAL.findall(text) if not re.search(rf"(?<!`)\b{name}\b(?!`)", text)]
    for file_named, test, folder in PLACE.findall(text):
        paths = [root / (file_named or folder) for root in (ROOT, ROOT / "tests")]
        there = [path for path in paths if path.exists()]
        names += [] if there and (not test or f"def {test}(" in there[0].read_text()) else [file_named + test]
    if file.endswith(".md"):  # a test by its name alone
        names += [name for name in re.findall(r"`(test_\w+)`", text) if name not in TESTS]
    links = re.findall(r"\]\(([^)#:]+)\)", text) if file == "README.md" else []
    return names + [link for link in links if not (ROOT / link).exists()]


def test_what_pages_and_docstrings_refer_to_exists() -> None:
    """Modules after ``python -m``, names in roles of docstrings, and paths of files."""
    texts = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
    texts |= sources(*PIPELINE, "benchmarks", "tools")
    found = {file: stale(file, text) for file, text in texts.items()}
    assert {file: names for file, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "text",
    [
        "`python -m tools.gone`",
        ":func:`corpora.text.gone`",
        ":meth:`gone`",
        "docs/gone.md",
        "tests/test_documentation.py::test_gone",
        "[gone](docs/gone)",
        "`tests/gone/`",
        "`test_gone`",
    ],
)
def test_a_stale_reference_is_found(text: str) -> None:
    assert len(stale("README.md" if text.startswith(("[", "`test_")) else "some.py", text)) == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_and_cells_are_short(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert page != ROOT / "README.md" or len(lines) <= LONGEST  # as many lines as a line has characters
    assert [line for line in lines if len(line) > LONGEST] == []
    cells = [cell for line in lines if line.startswith("|") for cell in re.split(r"(?<!\\)\|", line)]
    assert [cell for cell in cells if len(cell.split()) > MOST_WORDS] == []


DOCUMENTS = (
    "A cat sat on the mat.\nThe dog sleeps.\nIt dreams of cats.\n",
    "Prices fell on Monday.\nInvestors sold their shares.\nThe bank lost money.\n",
)
EXAMPLES = ("answers", "explain", "parsing-alone", "structure")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


FEW_STEPS = ["--device", "cpu", "--loop.batch", "6", "--loop.validation", "6", "--loop.max-steps", "2"]
SMALL = {
    "parsing.run": ["--workers", "1"],
    "multiview.readout": ["--dim", "8"],
    "senteval_runner.run": ["--tasks", "CR", "--protocol", "fast"],
}


def run_small(module: str, *words: str) -> None:
    """A command with the words that are shown, and those of a shorter training."""
    sizes = [] if "--init" in words else ["--table.dim", "16", "--encoder.dim", "16"]
    more = FEW_STEPS + sizes if module == "multiview.train" else SMALL.get(module, [])
    assert cli_of(module)([*words, *more]) == 0, (module, words)


def run_examples(text: str, names: dict[str, object], page: str) -> None:
    found = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    assert found.examples
    assert doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(found).failed == 0


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``runs/trees/corpus`` and ``runs/models/dep-const-laptop``, as the README has it."""
    folder = tmp_path_factory.mktemp("readme")
    with contextlib.chdir(folder):
        Path("corpus.txt").write_text("\n".join(DOCUMENTS * 6), encoding="utf-8")
        run_small("parsing.run", "corpus.txt")
        run_small("multiview.train", "--views", "dep,const")
    return folder


@pytest.mark.parametrize("page", [f"docs/{name}.md" for name in EXAMPLES])
def test_python_examples(page: str, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    # A closing fence after an example would be read as its output.
    run_examples((ROOT / page).read_text(encoding="utf-8").replace("```", "\n"), {}, page)


BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|((?:^ {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
STANDS_FOR = {
    **dict.fromkeys(("runs/models/A", "runs/models/mine"), "runs/models/dep-const-laptop"),
    "runs/trees/mine": "runs/trees/corpus",
}
"""A reader's own models and trees, which no block makes."""


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_every_block_runs_in_order(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pasted, but for shorter trainings; the transformer that is named is a tiny one on disk."""
    pytest.importorskip("sentence_transformers")
    from tests.fixtures.transformers import save_sentence_encoder

    monkeypatch.chdir(tmp_path)
    text = "\n".join(DOCUMENTS * 6)
    Path("corpus.txt.xz").write_bytes(lzma.compress(text.encode()))
    Path("sentences.txt").write_text(text, encoding="utf-8")
    np.save("mine.npy", np.random.default_rng(0).normal(size=(36, 8)).astype(np.float32))
    save_sentence_encoder(tmp_path / "tiny").rename("all-MiniLM-L6-v2")
    for name in ("SENTEVAL", "SENTEVAL_DATA"):
        write_tasks(tmp_path / name)
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    names: dict[str, object] = {}
    printed = io.StringIO()
    done = []
    for kind, fenced, indented in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        if kind == "python" and ">>>" not in fenced:
            with contextlib.redirect_stdout(printed := io.StringIO()):
                exec(compile(fenced, page, "exec"), names)
        elif kind == "text":  # the output of the block before
            assert printed.getvalue() == fenced
        elif kind == "python":
            run_examples(fenced, names, page)
        for line in indented.replace("\\\n", " ").splitlines():
            words = [STANDS_FOR.get(word, word) for word in shlex.split(line, comments=True)]
            if words[:2] == ["python", "-m"]:
                done.append(words[2])
                run_small(*words[2:])
            else:
                installs = words[0] in ("python3", "source", "pip")
                assert installs or (words[0] == "make" and words[1] in targets), line
    assert {"parsing.run", "multiview.train", "multiview.search", "senteval_runner.run"} <= set(done)
    assert "MultiViewEncoder" in names


def test_figures_are_those_of_the_results() -> None:
    readme, results, structure, models = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("README.md", "docs/results.md", "docs/structure.md", "docs/models.md")
    )
    beside = models[models.index("## Side by side") : models.index("## The sentence encoder")]
    cells = re.findall(r"^\|.*\|$", readme + beside, re.MULTILINE)
    figures = re.findall(r"\d+\.\d+", "\n".join(cells))
    assert len(figures) > 50 and [figure for figure in figures if figure not in results + structure] == []
