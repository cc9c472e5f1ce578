"""What ``--vectors`` may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from multiview.vector_names import has_input


@pytest.mark.parametrize("spec", ["train", "distil:anything", "taught:anything"])
def test_what_is_made_needs_no_file(spec: str) -> None:
    assert has_input(spec)


def test_what_is_named_must_be_there(tmp_path: Path) -> None:
    file = tmp_path / "v.txt"
    assert not has_input(str(file)) and not has_input(str(tmp_path))
    file.touch()
    assert has_input(str(file)) and not has_input(str(tmp_path))
    (tmp_path / "model.safetensors").touch()
    assert has_input(str(tmp_path))
