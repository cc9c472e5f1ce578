"""Every command: light help, refusals, option names. And of every file: no pickle."""

import importlib
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import runtime
from tests.fixtures.commands import HEAVY, PIPELINE, cli_of, commands, run_commands, run_fresh, sources
from tests.fixtures.processes import ROOT, run_python

PICKLE = re.compile(r"(^|[^a-z_])(pickle|dill|joblib)\.(load|dump)|torch\.(load|save)\(|allow_pickle=True")
CONVERTER = "parsing/convert.py"
"""The one file that opens a pickle, after ``--trust-pickle`` asked for it by name."""


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
