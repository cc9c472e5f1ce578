"""The public API is typed: what a user's mypy says about a script of theirs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_commands import PIPELINE, ROOT

pytestmark = pytest.mark.repo

pytest.importorskip("mypy")  # of the extra dev

SCRIPT = """\
from multiview.model import MultiViewEncoder
from senteval_runner import evaluate

encoder = MultiViewEncoder.load("model")
reveal_type(encoder.encode(["A sentence."]))
reveal_type(encoder.encode_query("A sentence."))
results = evaluate(encoder, "TREC", "data")
reveal_type(results["TREC"]["acc"])
encoder.encode(3)
results["TREC"].accuracy
"""
# Other libraries' types take a minute to read and are not what is asked.
OPTIONS = "[mypy]\nstrict = True\nfollow_imports = skip\n" + "".join(
    f"[mypy-{package}.*]\nfollow_imports = silent\n" for package in (*PIPELINE, "numpy")
)


def test_a_user_s_mypy_reads_our_types(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text(OPTIONS)
    site = tmp_path / "site"  # as installed: found by the import path, so that py.typed decides
    site.mkdir()
    for package in PIPELINE:
        (site / package).symlink_to(ROOT / package)
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    told = result.stdout
    assert "py.typed" not in told, told
    assert re.search(r'script.py:5: note: Revealed type is "numpy.ndarray\[.*(float32|_32Bit)', told), told
    assert 'script.py:6: note: Revealed type is "numpy.ndarray[' in told
    assert 'script.py:8: note: Revealed type is "float"' in told
    assert 'script.py:9: error: Argument 1 to "encode"' in told and 'has no attribute "accuracy"' in told
