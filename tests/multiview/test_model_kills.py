"""A kill between any two files of a model folder: never another model, and the same command mends it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from corpora.support.errors import UserError
from corpora.support.files import read_json
from multiview.config import TrainConfig
from multiview.folder.files import load_members
from multiview.train import main
from tests.fixtures.trees import changed

MODEL = ("config.json", "model.safetensors", "vocab.txt", "expansion.txt", "expansion.safetensors")


class Killed(Exception):
    """Stands for SIGKILL right after a file got its name."""


def run_until(count: int, folder: Path, work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether ``work`` is killed after replacing its ``count``-th file of a model in ``folder``."""
    real, seen = os.replace, 0

    def replace(source: Path, target: Path) -> None:
        nonlocal seen
        real(source, target)
        if Path(target).parent == folder and Path(target).name in MODEL:
            seen += 1
            if seen == count:
                raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        try:
            work()
        except Killed:
            return True
    return False


def loads(folder: Path) -> bool:
    """Whether the folder is a model; if not, it must say so."""
    try:
        load_members(folder)
    except UserError as error:
        assert str(folder) in str(error)
        return False
    return True


def test_training_goes_on_to_the_same_model(tiny: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a validation set the newest weights are kept, here twice.
    config = changed(tiny, loop={"max_steps": 2, "validation": 0})
    main(config)
    expected, states, killed = read_json(config.folder / "config.json")["files"], [], 0
    while True:
        broken = changed(config, output=config.output / str(killed))
        if not run_until(killed + 1, broken.folder, lambda run=broken: main(run), monkeypatch):
            break
        killed += 1
        states.append(loads(broken.folder))
        assert main(broken) == 0
        assert read_json(broken.folder / "config.json")["files"] == expected  # their SHA-256
        assert loads(broken.folder)
    assert killed == 6 and True in states and False in states, "some kills fell between two files"
