"""A kill between any two files of a model folder: never another model, and the same command mends it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview.config import TrainConfig
from multiview.folder.expanded import expand_into
from multiview.folder.files import load_members
from multiview.train import main
from multiview.words.vectors import load_word_vectors
from tests.fixtures.trees import changed, toy_corpus
from tests.multiview.words.test_expansion import write_vectors

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


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name in MODEL}


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
    expected, states, killed = content(config.folder), [], 0
    while True:
        broken = changed(config, output=config.output / str(killed))
        if not run_until(killed + 1, broken.folder, lambda run=broken: main(run), monkeypatch):
            break
        killed += 1
        states.append(loads(broken.folder))
        assert main(broken) == 0
        made = content(broken.folder)
        assert made.keys() == expected.keys()
        assert made["model.safetensors"] == expected["model.safetensors"]
        assert loads(broken.folder)
    assert killed == 6 and True in states and False in states, "some kills fell between two files"


def test_an_expansion_in_place_is_done_again(
    tiny: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(changed(tiny, loop={"max_steps": 2}))
    words = sorted({word for sentence in toy_corpus()[0] for word in sentence})
    rows = {word: np.array([i % 7, i % 5], np.float32) for i, word in enumerate([*words, "new", "newer"])}
    vectors = load_word_vectors(write_vectors(tmp_path / "v.txt", rows), tmp_path / "cache")
    model = tiny.folder
    whole = shutil.copytree(model, tmp_path / "whole")
    expand_into(whole, whole, vectors)
    for count in range(1, 20):
        folder = shutil.copytree(model, tmp_path / f"killed-{count}")

        def expand(folder: Path = folder) -> None:
            expand_into(folder, folder, vectors)

        if not run_until(count, folder, expand, monkeypatch):
            break
        assert loads(folder), "trained vectors do not change"
        expand()
        assert content(folder) == content(whole)
    assert count >= 5
