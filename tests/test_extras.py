"""The core does without the libraries of the extras; a command that needs one names its extra in one line."""

import json
import re
import tomllib
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from packaging.requirements import Requirement

from tests.fixtures.commands import run_commands
from tests.fixtures.processes import ROOT, run_python
from tests.fixtures.senteval import write_tasks

pytestmark = [pytest.mark.process, pytest.mark.repo, pytest.mark.timeout(900)]
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


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., CompletedProcess[str]]:
    """Runs ``python WORDS...`` where only the core is installed."""
    installed, folder = core_distributions(), tmp_path_factory.mktemp("core")
    hidden = [
        module
        for module, distributions in packages_distributions().items()
        if installed.isdisjoint(map(canonical, distributions))
    ]
    assert {"transformers", "pandas", "sklearn", "supar", "benepar", "stanza", "nltk"} <= set(hidden)
    (folder / "sitecustomize.py").write_text(HIDE)
    (folder / "text.txt").write_text(TEXT)
    write_tasks(folder / "data")
    places = {"PYTHONPATH": f"{folder}:{ROOT}", "HIDDEN_MODULES": json.dumps(hidden)}
    return partial(run_python, cwd=folder, timeout_s=600, **places)


SIZES = "--encoder.dim 8 --table.dim 8 --loop.batch 8 --loop.max-steps 3"
RUN = (
    "parsing.run text.txt --workers 1 --format lines",
    f"multiview.train --start none --views dep,const {SIZES}",
    "multiview.encode builtin text.txt --output v.npy",
    "multiview.search runs/models/dep-const-laptop text.txt Prices --top 1",
    "multiview.judge Prices\tfell. Prices\trose.",
    "multiview.explain builtin Prices\tfell. Prices\trose.",
    "senteval_runner.run builtin --data data --tasks CR,SICK-R --protocol fast",
    "parsing.show runs/trees/text",
)
"""Commands that need no extra; a tab stands for a space in a word."""
NEEDED = {
    "parsing.run text.txt --const-model benepar_en3 --workers 1 --format lines": ("benepar", "parsers"),
    "parsing.convert text.txt out --trust-pickle": ("supar", "parsers"),
    "senteval_runner.run builtin --data data --protocol sklearn": ("scikit-learn", "sklearn"),
    "multiview.encode all-MiniLM-L6-v2 text.txt": ("sentence-transformers", "burt"),
    "multiview.serve builtin": ("uvicorn", "serve"),
    "studies.layers builtin --data data": ("pandas", "report"),
}
"""Commands, and the package and the extra that each needs."""


@pytest.fixture(scope="module")
def results(core: Callable[..., CompletedProcess[str]]) -> dict[str, tuple[int, str]]:
    """Exit code and messages of each of these commands, run in one process."""
    commands = [*NEEDED, *RUN]
    words = [[word.replace("\t", " ") for word in command.split(" ")] for command in commands]
    done = run_commands(words, core)
    return {command: (code, errors) for command, (code, *_, errors) in zip(commands, done, strict=True)}


def test_the_core_parses_trains_encodes_judges_and_scores(results) -> None:
    for command in RUN:
        code, errors = results[command]
        assert code == 0, f"{command}\n{errors}"


def test_a_command_that_needs_an_extra_names_it(results) -> None:
    for command, (package, extra) in NEEDED.items():
        code, errors = results[command]
        advice = f"in a clone of this project, pip install -c constraints.txt '.[{extra}]'"
        assert code == 2 and f"{package} is not installed: {advice}" in errors.splitlines()[-1], errors
        assert "Traceback" not in errors


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
