"""The list of texts that evaluations ask vectors for: complete, each once, in a form that .npz takes."""

from pathlib import Path

import numpy as np
import pytest

from studies.sentences import cli
from studies.similarity.__main__ import cli as similarity
from tests.fixtures.senteval import write_tasks


def test_the_lines_are_all_that_an_evaluation_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other evaluations take them in the commands that the papers' pages print."""
    data = write_tasks(tmp_path / "data")
    (tmp_path / "rw.txt").write_text("old\taged man\t9\nold\tnew\t5\nnew\tdog\t1\n")
    file, vectors = tmp_path / "texts.txt", tmp_path / "use.npz"
    of_words, of_data = ["--words", str(tmp_path)], ["--data", str(data)]
    assert cli([str(file), "--tasks", "CR,SICKRelatedness", *of_data, *of_words]) == 0
    lines = file.read_text().split("\n")
    assert len(set(lines)) == len(lines) and "aged man" in lines
    numbers = np.random.default_rng(0).normal(size=(len(lines) - 1, 6))
    np.savez(vectors, sentences=lines[:-1], vectors=numbers)
    assert similarity([str(vectors), *of_words, "--output", str(tmp_path / "report")]) == 0
    capsys.readouterr()
    # A task that is not there is named, and the others are written.
    assert cli([str(file), "--tasks", "MR,CR", *of_data]) == 2
    assert "left out: MR: " in capsys.readouterr().out and len(file.read_text().split("\n")) < len(lines)
    assert cli([str(file)]) == 2
    assert "no text to list: give --tasks" in capsys.readouterr().err
    (tmp_path / "rw.txt").write_text("young\told\t9\nold\tnew\t5\nnew\tdog\t1\n")
    assert similarity([str(vectors), *of_words, "--output", str(tmp_path / "report")]) == 2
    assert "python -m studies.sentences FILE --tasks NAMES lists all" in capsys.readouterr().err
