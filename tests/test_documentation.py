"""The documentation builds, its links lead somewhere, its commands exist, its Python runs as printed."""

import contextlib
import csv
import doctest
import io
import lzma
import re
import shlex
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from tests.fixtures.commands import PIPELINE, cli_of, commands, sources
from tests.fixtures.pages import printed_commands, run_small
from tests.fixtures.processes import ROOT, run_python
from tests.fixtures.senteval import write_tasks
from tools import budgets

pytestmark = pytest.mark.repo
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
)
SUBCOMMANDS = ("dep", "const")
FIRST_WORD = {"parsing.score": "dep"}
"""Whose options are meant where a line names none."""


def printed_options() -> dict[str, dict[str, str]]:
    """Module and subcommand -> option -> a page or a file whose usage lines give it."""
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES} | sources(*PIPELINE)
    options: dict[str, dict[str, str]] = defaultdict(dict)
    for path, text in texts.items():
        for module, words in printed_commands(text):
            first = words[0] if words and words[0] in SUBCOMMANDS else FIRST_WORD.get(module, "")
            names = [word.partition("=")[0] for word in words if word.startswith("--")]
            options[f"{module} {first}".rstrip()] |= dict.fromkeys(names, path)
    return options


def test_the_site_is_whole(tmp_path: Path) -> None:
    """It builds without a warning; every page is in one of five tabs by reader; nothing is fetched."""
    pytest.importorskip("mkdocstrings")
    words = ("-m", "mkdocs", "build", "--strict", "-q", "-d", tmp_path)
    process = run_python(*words, cwd=ROOT, NO_MKDOCS_2_WARNING="1")
    assert process.returncode == 0, process.stdout + process.stderr
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    tabs = re.findall(r'<li class="md-tabs__item.*?</a>', index, re.DOTALL)
    titles = [re.sub(r"<[^>]*>", "", tab).strip() for tab in tabs]
    assert titles == ["Start", "Guides", "Reference", "Studies", "Internals"]
    pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")}
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("nav:")[1]
    assert pages == set(re.findall(r"[\w/.-]+\.md", nav))
    fetch = r"<(?:script|img|iframe)[^>]*src=[\"']?https?:|<link[^>]*href=[\"']?https?:"
    assert [path for path in tmp_path.rglob("*.html") if re.search(fetch, path.read_text("utf-8"))] == []
    api = (tmp_path / "api.html").read_text(encoding="utf-8")
    assert ":class:" not in api and ":func:" not in api  # references are links or names
    assert 'id="multiview.model.MultiViewEncoder.encode"' in api


@pytest.mark.parametrize("name", sorted(printed_options()))
def test_options_that_are_printed_exist(name: str, capsys) -> None:
    module, *words = name.split()
    assert module in commands() and cli_of(module)([*words, "--help"]) == 0
    text = capsys.readouterr().out
    for option, page in printed_options()[name].items():
        assert re.search(rf"{option}(?![\w.-])", text), f"{page}: {name} has no {option}"


FILE = re.compile(r"[\w./-]+\.(?:py|tsv|csv|toml)|[a-z_]+(?:/\w+)+/?")
NAME = re.compile(r"(?:([\w./-]+\.py):)?([A-Za-z_][\w.]*)")
"""``path.py:Class.method``, or a name by itself."""


def defines(text: str, name: str) -> bool:
    pattern = rf"^\s*(?:def|class) {name}\b|^\s*(?:self\.)?{name}\b[^\n()]*[:=]"
    return bool(re.search(pattern, text, re.MULTILINE))


@pytest.mark.parametrize("page", sorted((ROOT / "docs/papers").glob("*.md")), ids=lambda page: page.stem)
def test_what_the_pages_of_the_papers_name_exists(page: Path) -> None:
    """Files, functions, classes and constants in code marks; options by their fields."""
    code = sources(*PIPELINE, "tools", "tests")
    paths = [str(path) for folder in (*PIPELINE, "tools", "tests") for path in (ROOT / folder).rglob("*")]

    def is_defined(name: str, path: str = "") -> bool:
        texts = [text for file, text in code.items() if f"/{file}".endswith(path)]
        return any(all(defines(text, part) for part in name.split(".")) for text in texts)

    def exists(mark: str) -> bool:
        if FILE.fullmatch(mark):  # a user's file is named in the code that reads it
            is_ours = any(path.endswith(f"/{mark.rstrip('/')}") for path in paths)
            return is_ours or any(mark in text for text in code.values())
        match = NAME.fullmatch(mark)
        if match and re.search(r"[:_]|[A-Z]\w*[a-z]|[A-Z]{4}", mark):
            return is_defined(match[2], f"/{match[1]}" if match[1] else "")
        options = re.findall(r"(?<!\S)--([a-z][\w.-]*)", mark)
        return all(is_defined(option.split(".")[-1].replace("-", "_")) for option in options)

    marks = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    assert [mark for mark in marks if not exists(mark)] == []


OURS = rf"(?:{'|'.join(PIPELINE)}|benchmarks|tools|tests)"
DOTTED = re.compile(rf"(?:python -m |:(?:mod|func|class|meth|attr|data):`~?)({OURS}(?:\.\w+)+)")
LOCAL = re.compile(r":(?:func|class|meth|attr|data):`~?([A-Za-z_]\w*)`")
PLACE = re.compile(
    rf"(?<![\w/.-])((?:{OURS}|docs)/[\w/.-]*\.(?:py|md|toml|tsv|csv|svg|png)\b|tests/[\w/]+/(?=`))"
)


def has(name: str) -> bool:
    """Whether a dotted name is a module of ours, or what a module defines or imports."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:end])
        file = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
        if file.exists():
            text = file.read_text(encoding="utf-8")
            imports = re.findall(r"^ *(?:from .* )?import (.*(?:\([^)]*\))?)", text, re.MULTILINE)
            names = set(re.findall(r"\w+", " ".join(imports)))
            return all(part in names or defines(text, part) for part in parts[end:])
    return False


def stale(file: str, text: str) -> list[str]:
    """What a page or a docstring refers to and is not there."""
    names = [name for name in DOTTED.findall(text) if not has(name)]
    if file.endswith(".py"):  # a name without a module is of the same file
        names += [name for name in LOCAL.findall(text) if not re.search(rf"(?<!`)\b{name}\b(?!`)", text)]
    paths = PLACE.findall(text)
    paths += re.findall(r"\]\(([^)#:]+)\)", text) if file == "README.md" else []
    return names + [path for path in paths if not (ROOT / path).exists()]


def test_what_pages_and_docstrings_refer_to_exists() -> None:
    """Modules after ``python -m``, names in roles of docstrings, and paths of files."""
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    texts |= sources(*PIPELINE, "benchmarks", "tools")
    assert {file: names for file, text in texts.items() if (names := stale(file, text))} == {}


def test_every_promise_has_a_test_that_exists() -> None:
    """Promises are the items of the page; docs/promises.tsv has their tests by section and first words."""
    page = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
    promised = set()
    for section in page.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        items = re.findall(r"^(?:- )?\*+([^*\n]+?)\.?\*+", section, re.MULTILINE)
        promised |= {(title, item) for item in items or [""]}
    with open(ROOT / "docs/promises.tsv", encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    tested = {(row["section"], row["promise"]) for row in rows}
    titles = {title for title, _ in promised}
    assert promised - tested == set()
    assert {(title, item) for title, item in tested - promised if item or title not in titles} == set()
    code = sources("tests")
    named = [row["test"].split("::") for row in rows]
    assert [one for one in named if f"\ndef {one[1]}(" not in code.get(f"tests/{one[0]}", "")] == []


@pytest.mark.parametrize(
    "text",
    [
        "`python -m tools.gone`",
        ":func:`corpora.text.gone`",
        ":meth:`gone`",
        "docs/gone.md",
        "[gone](docs/gone)",
        "`tests/gone/`",
    ],
)
def test_a_stale_reference_is_found(text: str) -> None:
    assert len(stale("README.md" if text.startswith("[") else "some.py", text)) == 1


def test_what_is_over_is_named_and_long_paragraphs_are_filled_anew() -> None:
    """``make check`` asks this of every page."""
    long_line, cell = " ".join(["word"] * 30), "| " + "word " * 26 + "|"
    text = f"# Title\n\n{long_line}\nend\n\n{cell}\n\n```\n{long_line}\n```\n\n- {long_line}\n"
    named = [line.rpartition(":")[0] for line in budgets.page_excesses("a.md", text)]
    assert named == [f"a.md, line {number}" for number in (3, 6, 6, 9, 12)]
    lines = budgets.mend(text).splitlines()
    assert len(lines[2]) <= 110 and lines[3].endswith("word end")
    assert lines[4:] == text.splitlines()[4:]
    assert list(budgets.page_excesses("README.md", "\n" * 111)) == ["README.md: 111 lines, 110 at most"]


DOCUMENTS = (
    "A cat sat on the mat.\nThe dog sleeps.\nIt dreams of cats.\n",
    "Prices fell on Monday.\nInvestors sold their shares.\nThe bank lost money.\n",
)
EXAMPLES = ("answers", "parsing-alone", "structure")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def run_examples(text: str, names: dict[str, object], page: str) -> None:
    examples = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    assert examples.examples
    assert doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(examples).failed == 0


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``runs/trees/corpus`` and ``runs/models/builtin-laptop``, as the README has it."""
    folder = tmp_path_factory.mktemp("readme")
    with contextlib.chdir(folder):
        Path("corpus.txt").write_text("\n".join(DOCUMENTS * 6), encoding="utf-8")
        run_small("parsing.run", ["corpus.txt"])
        run_small("multiview.train", [])
    return folder


@pytest.mark.parametrize("page", [f"docs/{name}.md" for name in EXAMPLES])
def test_python_examples(page: str, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    # A closing fence after an example would be read as its output.
    run_examples((ROOT / page).read_text(encoding="utf-8").replace("```", "\n"), {}, page)


BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$|((?:^ {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
STANDS_FOR = {
    **dict.fromkeys(("runs/models/A", "runs/models/mine"), "runs/models/builtin-laptop"),
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
    pairs = "".join(f"What is number {n}?\tIt is {n}.\n" for n in range(30))
    Path("pairs.tsv").write_text(f"anchor\tpositive\n{pairs}", encoding="utf-8")
    Path("queries.tsv").write_text(f"query\trelevant\n{pairs}", encoding="utf-8")
    np.save("mine.npy", np.random.default_rng(0).normal(size=(36, 8)).astype(np.float32))
    save_sentence_encoder(tmp_path / "tiny").rename("all-MiniLM-L6-v2")
    for name in ("SENTEVAL", "SENTEVAL_DATA"):
        write_tasks(tmp_path / name)
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    names: dict[str, object] = {}
    output = io.StringIO()
    modules = set()
    for kind, content, shell in BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        if kind == "python" and ">>>" not in content:
            with contextlib.redirect_stdout(output := io.StringIO()):
                exec(compile(content, page, "exec"), names)
        elif kind == "text":  # the output of the block before
            assert output.getvalue() == content
        elif kind == "python":
            run_examples(content, names, page)
        for line in shell.replace("\\\n", " ").splitlines():
            words = [STANDS_FOR.get(word, word) for word in shlex.split(line, comments=True)]
            if words[:2] == ["python", "-m"]:
                modules.add(words[2])
                run_small(words[2], words[3:])
            else:
                is_installation = words[0] in ("python3", "source", "pip")
                assert is_installation or (words[0] == "make" and words[1] in targets), line
    assert {"parsing.run", "multiview.train", "multiview.search", "senteval_runner.run"} <= modules
    assert "MultiViewEncoder" in names
