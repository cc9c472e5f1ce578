"""The page's lines for Ray Data give the vectors of ``encode``."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from multiview.model import MultiViewEncoder
from tests.fixtures.processes import ROOT

pytest.importorskip("ray")
pyarrow_parquet = pytest.importorskip("pyarrow.parquet")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ray_data_gives_the_vectors_of_encode(tmp_path: Path, packaged_encoder: MultiViewEncoder) -> None:
    page = (ROOT / "docs/scaling.md").read_text(encoding="utf-8")
    (code,) = [
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "import ray" in block
    ]
    start = "import ray\n\nray.init(num_cpus=2, include_dashboard=False)\n"  # a cluster of this machine alone
    (tmp_path / "page.py").write_text(start + code, encoding="utf-8")
    sentences = [f"Parcel {number} arrived ." for number in range(60)]
    (tmp_path / "sentences.txt").write_text("\n".join(sentences), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_AUTH_MODE": "disabled"}
    environment["RAY_worker_niceness"] = "0"  # else they starve beside other tests
    subprocess.run([sys.executable, "page.py"], cwd=tmp_path, env=environment, check=True, timeout=800)
    table = pyarrow_parquet.read_table(tmp_path / "vectors").to_pydict()
    vector_of_text = dict(zip(table["text"], table["vector"], strict=True))
    vectors = [vector_of_text[sentence] for sentence in sentences]
    np.testing.assert_allclose(vectors, packaged_encoder.encode(sentences), atol=1e-5)
