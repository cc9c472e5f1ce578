"""Every command: light help, refusals, option names. And of every file: no pickle."""

import importlib
import json
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from textwrap import indent

import numpy as np
import pytest

import runtime
from tests.fixtures.processes import ROOT, run_python

PIPELINE = ("runtime", "corpora", "parsing", "multiview", "senteval_runner", "studies")
HEAVY = ("torch", "spacy", "transformers", "numba", "sklearn", "matplotlib", "h5py")
PICKLE = re.compile(r"(^|[^a-z_])(pickle|dill|joblib)\.(load|dump)|torch\.(load|save)\(|allow_pickle=True")
CONVERTER = "parsing/convert.py"
"""The one file that opens a pickle, after ``--trust-pickle`` asked for it by name."""


def sources(*folders: str) -> dict[str, str]:
    """Texts of the Python files below these folders, by path from the project's root."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def commands() -> list[str]:
    """Modules that run as ``python -m``: those with a main guard."""
    files = [path for path, text in sources(*PIPELINE).items() if '__name__ == "__main__"' in text]
    return [path.removesuffix(".py").removesuffix("/__main__").replace("/", ".") for path in files]


def cli_of(module: str):
    """The command that ``python -m MODULE`` runs."""
    is_folder = (ROOT / module.replace(".", "/")).is_dir()
    return importlib.import_module(f"{module}.__main__" if is_folder else module).cli


def run_fresh(
    program: str, names: tuple[str, ...] = HEAVY, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own; its last line says which of these modules were loaded."""
    end = f"print('loaded:', *[name for name in {names!r} if name in sys.modules])"
    script = f"import sys\ntry:\n{indent(program, '  ')}\nfinally:\n  {end}"
    return run_python("-W", "ignore", "-c", script, cwd=cwd)


RUN = """
import contextlib, io, json, runpy, sys
results = []
for words in json.loads(sys.argv[1]):
    sys.argv, code, out, errors = words, 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code
    loaded = [name for name in %r if name in sys.modules]
    results.append([code, loaded, out.getvalue(), errors.getvalue()])
print(json.dumps(results))
"""


def run_commands(
    commands: list[list[str]], run: Callable[..., subprocess.CompletedProcess[str]]
) -> list[tuple[int, list[str], str, str]]:
    """Run commands in one new process; of each its code, the heavy modules there then, output and errors."""
    process = run("-W", "ignore", "-c", RUN % (HEAVY,), json.dumps(commands))
    assert process.returncode == 0, process.stderr
    return [(code, loaded, output, errors) for code, loaded, output, errors in json.loads(process.stdout)]


FIRST = "from multiview.model import MultiViewEncoder as M; M.load('builtin').encode('One.')"
LIBRARIES = ("supar", "benepar", "nltk", "stanza", "scipy", "tensorboard", "triton", "ray")
SEARCH = """
from pathlib import Path; from multiview.search import semantic_search
from runtime.files import read_array
v = read_array(Path('v.npy'), 2); assert semantic_search(v[1], v)[0][0].corpus_id == 1
"""


@pytest.mark.repo
@pytest.mark.parametrize(
    ("program", "modules"),
    [
        ("import multiview, multiview.config", ""),
        ("import multiview.model", "torch numpy"),
        (SEARCH, "numpy"),
        (FIRST, "torch spacy numba h5py numpy scipy"),
    ],
)
def test_what_an_import_needs(program: str, modules: str, tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.eye(3, dtype=np.float32))
    slow = ("torch._dynamo", "torch._inductor", "sympy", "pandas")
    process = run_fresh(program, (*HEAVY, "numpy", *LIBRARIES, *slow), tmp_path)
    assert process.stdout.splitlines()[-1:] == [f"loaded: {modules}".rstrip()], process.stderr


@pytest.mark.process
def test_help_is_light() -> None:
    modules = commands()
    results = run_commands([[module, "--help"] for module in modules], partial(run_python, cwd=ROOT))
    for module, (code, loaded, output, errors) in zip(modules, results, strict=True):
        assert (code, loaded) == (0, []), (module, errors)
        assert "usage" in output.lower(), module
        assert "--dry-run" in output or module not in ("multiview.train", "parsing.run")


REFUSED = {
    "senteval_runner.run start:builtin --data docs": "start:MODEL?corpus=runs/trees/NAME",
    "senteval_runner.run bag:random+sif:nowhere.txt?corpus=docs": "docs/manifest.json: no such",
    "senteval_runner.run builtin?structure=0.1 --data nowhere": "nowhere: no such folder",
    "senteval_runner.run builtin --data docs --seeds 1_0": "--seeds '1_0'",
    "senteval_runner.run builtin --tasks TRCE": "did you mean TREC",
    "multiview.encode all-MiniLM-L6-v2?structure=0.1 nowhere.txt": "nowhere.txt: no such file",
    "multiview.search bag:nowhere.txt README.md a": "'nowhere.txt': no such file or folder",
    "multiview.train --start none --views dep": "needs two",
    "multiview.explain builtin a b --dep-model no/dep": "no/dep: no such model folder",
    "senteval_runner.run builtin --const-model benpar_en3": "benpar_en3: no such folder",
}


@pytest.mark.process
def test_what_a_look_can_tell_is_refused_at_once() -> None:
    results = run_commands([command.split() for command in REFUSED], partial(run_python, cwd=ROOT))
    for (command, message), (code, loaded, _, errors) in zip(REFUSED.items(), results, strict=True):
        assert (code, loaded) == (2, []) and message in errors, (command, errors)


@pytest.mark.parametrize("module", commands())
def test_every_command_has_a_version_and_refuses_other_options(module: str, capsys) -> None:
    for words in (["--version"], ["some", "--words", "--version"]):
        assert cli_of(module)(words) == 0
        assert capsys.readouterr().out == f"multiview-embeddings {runtime.__version__}\n"
    assert cli_of(module)(["--no-such-option"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_every_package_has_the_version() -> None:
    assert {importlib.import_module(name).__version__ for name in PIPELINE} == {runtime.__version__}
    assert f"\nversion: {runtime.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.repo
def test_nothing_executable_is_read_or_written() -> None:
    assert [path for path, text in sources(*PIPELINE).items() if PICKLE.search(text)] == [CONVERTER]
