"""A working folder that several tests of names read."""

from pathlib import Path

import pytest

from tests.parsing.pipeline.toy_parsers import odd_sentences, write_cache


@pytest.fixture
def workplace(tmp_path: Path, words: Path, builtin: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with word vectors, a tree cache and a builtin encoder of two SEQ views twice."""
    pytest.importorskip("sentence_transformers")
    monkeypatch.chdir(tmp_path)
    write_cache(tmp_path / "trees", odd_sentences(30))
    return tmp_path
