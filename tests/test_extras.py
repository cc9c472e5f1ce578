"""The core does without the libraries of the extras; a command that needs one names its extra in one line."""

import json
import re
import tomllib
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from packaging.requirements import Requirement

from tests.fixtures.processes import ROOT, run_python
from tests.fixtures.senteval import write_tasks
from tests.test_commands import run_commands

pytestmark = [pytest.mark.process, pytest.mark.repo]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HIDE = """
import json, os, sys
from importlib.machinery import PathFinder
HIDDEN = frozenset(json.loads(os.environ["HIDDEN_MODULES"]))
class Core(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else PathFinder.find_spec(name, path, target)
sys.meta_path = [Core if finder is PathFinder else finder for finder in sys.meta_path]
"""
"""A sitecustomize for processes in which some modules are not there, those that they start too."""
TEXT = "The cat sat on the mat.\nIt slept all day.\n\nPrices fell.\nInvestors sold their shares.\n" * 8


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def core_distributions() -> set[str]:
    """What ``pip install .`` brings: the dependencies, theirs, and so on."""
    waiting, found = [Requirement(line) for line in PROJECT["dependencies"]], {"pip", PROJECT["name"]}
    while waiting:
        requirement = waiting.pop()
        name = canonical(requirement.name)
        try:
            lines = requires(name) or [] if name not in found else []
        except PackageNotFoundError:  # of another system or Python
            continue
        found.add(name)
        inner = map(Requirement, lines)
        waiting += [each for each in inner if not each.marker or each.marker.evaluate({"extra": ""})]
    return found


@pytest.fixture
def core(tmp_path: Path) -> Callable[..., CompletedProcess[str]]:
    """Runs ``python WORDS...`` where only the core is installed."""
    installed = core_distributions()
    hidden = [
        module
        for module, distributions in packages_distributions().items()
        if installed.isdisjoint(map(canonical, distributions))
    ]
    assert {"transformers", "pandas", "sklearn", "supar", "benepar", "stanza", "nltk"} <= set(hidden)
    (tmp_path / "sitecustomize.py").write_text(HIDE)
    (tmp_path / "text.txt").write_text(TEXT)
    write_tasks(tmp_path / "data")
    places = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "HIDDEN_MODULES": json.dumps(hidden)}
    return partial(run_python, cwd=tmp_path, **places)


def words_of(commands: Iterable[str]) -> list[list[str]]:
    """The words of each; a tab stands for a space in one."""
    return [[word.replace("\t", " ") for word in command.split(" ")] for command in commands]


def test_the_core_parses_trains_encodes_judges_and_scores(core) -> None:
    sizes = "--encoder.dim 8 --table.dim 8 --loop.batch 8 --loop.max-steps 3"
    commands = [
        "parsing.run text.txt --workers 1 --format lines",
        f"multiview.train --start none --views dep,const {sizes}",
        "multiview.encode builtin text.txt --output v.npy",
        "multiview.search runs/models/dep-const-laptop text.txt Prices --top 1",
        "multiview.judge Prices\tfell. Prices\trose.",
        "multiview.explain builtin Prices\tfell. Prices\trose.",
        "senteval_runner.run builtin --data data --tasks CR,SICK-R --protocol fast",
        "parsing.show runs/trees/text",
    ]
    for command, (code, *_, errors) in zip(commands, run_commands(words_of(commands), core), strict=True):
        assert code == 0, f"{command}\n{errors}"


NEEDED = {
    "parsing.run text.txt --const-model benepar_en3 --workers 1 --format lines": ("benepar", "parsers"),
    "parsing.convert text.txt out --trust-pickle": ("supar", "parsers"),
    "senteval_runner.run builtin --data data --protocol sklearn": ("scikit-learn", "sklearn"),
    "multiview.encode all-MiniLM-L6-v2 text.txt": ("sentence-transformers", "burt"),
    "multiview.serve builtin": ("uvicorn", "serve"),
    "studies.layers builtin --data data": ("pandas", "report"),
}
"""Commands, and the package and the extra that each needs."""


def test_a_command_that_needs_an_extra_names_it(core) -> None:
    results = run_commands(words_of(NEEDED), core)
    for (package, extra), (code, *_, errors) in zip(NEEDED.values(), results, strict=True):
        advice = f"in a clone of this project, pip install -c constraints.txt '.[{extra}]'"
        line = f"{package} is not installed: {advice}"
        assert code == 2 and line in errors.splitlines()[-1] and "Traceback" not in errors, errors


def test_the_spacy_component_names_its_extra(core) -> None:
    done = core("-c", "import spacy; spacy.blank('en').add_pipe('multiview_parser')")
    assert (
        "benepar is not installed: in a clone of this project, pip install -c constraints.txt '.[parsers]'"
        in done.stderr
    )


def test_every_extra_that_a_message_names_is_one() -> None:
    extras = set(PROJECT["optional-dependencies"])
    for package in ("corpora", "parsing", "multiview", "senteval_runner", "studies"):
        for path in Path(ROOT, package).rglob("*.py"):
            assert set(re.findall(r'with extra\("(\w+)"', path.read_text(encoding="utf-8"))) <= extras, path
