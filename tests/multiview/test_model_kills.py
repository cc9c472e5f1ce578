"""A kill between any two files of a model folder: never another model, and the same command mends it."""

from __future__ import annotations

import os
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


def loads(folder: Path) -> bool:
    """Whether the folder is a model; if not, it must say so."""
    try:
        return bool(load_members(folder))
    except UserError as error:
        assert str(folder) in str(error)
        return False


def test_training_goes_on_to_the_same_model(tiny: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a validation set the newest weights are kept, here twice.
    config = changed(tiny, loop={"max_steps": 2, "validation": 0})
    main(config)
    expected, states, real, left = read_json(config.folder / "config.json")["files"], [], os.replace, 0

    def replace(source: Path, target: Path) -> None:
        nonlocal left
        real(source, target)
        if Path(target).parent.parent == config.output and Path(target).name in MODEL:
            left -= 1
            if left == 0:
                raise Killed

    monkeypatch.setattr(os, "replace", replace)
    for count in range(1, 8):
        broken, left = changed(config, name=str(count)), count
        try:
            main(broken)
            break
        except Killed:
            states.append(loads(broken.folder))
        assert main(broken) == 0
        assert read_json(broken.folder / "config.json")["files"] == expected  # their SHA-256
        assert loads(broken.folder)
    assert len(states) == 6 and len({*states}) == 2, "some kills fell between two files"
