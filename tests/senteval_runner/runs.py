"""Short runs of the command on a few rows of each task."""

from collections.abc import Callable
from pathlib import Path

import pytest

from senteval_runner.run import SentEvalConfig, main
from tests.fixtures.pages import make_light

Run = Callable[..., int]
FAST = {"tasks": "CR", "protocol": "fast", "baselines": False}


def config(tmp_path: Path, data: Path, *models: str, **options) -> SentEvalConfig:
    folders = {"data": data, "output": tmp_path / "report", "cache": tmp_path / "cache"}
    return SentEvalConfig(**{"models": models, **folders, **FAST, **options})


@pytest.fixture
def run(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs models with options in ``tmp_path``."""
    monkeypatch.chdir(tmp_path)
    make_light(monkeypatch)
    return lambda *models, **options: main(config(tmp_path, data, *map(str, models), **options))
