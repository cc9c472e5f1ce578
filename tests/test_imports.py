"""What an import brings along, by ``sys.modules``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.test_commands import ROOT

pytestmark = pytest.mark.repo

PARSERS = ("spacy", "supar", "benepar", "transformers", "nltk", "stanza")
HEAVY = (*PARSERS, "numba", "scipy", "sklearn", "h5py", "matplotlib", "tensorboard", "triton", "ray")


def imported(program: str, names: tuple[str, ...], cwd: Path = ROOT) -> set[str]:
    """Which of these modules are loaded after a program ran in a fresh process."""
    end = f"\nimport sys; print('loaded:', *(name for name in {names!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program + end],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("loaded:")[2].split())


FIRST = "from multiview.model import MultiViewEncoder as M; M.load('builtin').encode('One.')"
SLOW = ("torch._dynamo", "torch._inductor", "sympy", "pandas", "transformers")
SEARCH = """
from pathlib import Path; from multiview.search import semantic_search
from runtime.files import read_array
v = read_array(Path('v.npy'), 2); assert semantic_search(v[1], v)[0][0].corpus_id == 1
"""


def test_what_an_import_needs(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.eye(3, dtype=np.float32))
    names = ("torch", "numpy", *HEAVY)
    assert imported("import multiview, multiview.config", names) == set()
    assert imported("import multiview.model", names) == {"torch", "numpy"}
    assert imported(SEARCH, names, tmp_path) == {"numpy"}
    assert imported(FIRST, ("numba", "spacy", *SLOW)) == {"numba", "spacy"}
