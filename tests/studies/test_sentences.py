"""The list of texts that evaluations ask vectors for: complete, each once, in a form that .npz takes."""

from pathlib import Path

import numpy as np
import pytest

from studies.analogies.__main__ import cli as analogies
from studies.layers.__main__ import cli as layers
from studies.sentences import cli
from studies.similarity.__main__ import cli as similarity
from tests.fixtures.senteval import write_tasks


def write_vectors(path: Path, lines: str) -> Path:
    """Random vectors of the lines, as another program may save them."""
    texts = lines.split("\n")[:-1]
    np.savez(path, sentences=texts, vectors=np.random.default_rng(0).normal(size=(len(texts), 6)))
    return path


def test_the_lines_are_all_that_an_evaluation_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_tasks(tmp_path / "data")
    (tmp_path / "rw.txt").write_text("old\taged man\t9\nold\tnew\t5\nnew\tdog\t1\n")
    questions = tmp_path / "questions"
    assert analogies(["build", "--limit", "2", "--output", str(questions)]) == 0
    file, output = tmp_path / "texts.txt", ["--output", str(tmp_path / "report")]
    of_tasks = ["--tasks", "CR,SICKRelatedness", "--data", str(data)]
    of_questions = ["--questions", str(questions / "questions.tsv")]
    of_words = ["--words", str(tmp_path)]
    assert cli([str(file), *of_tasks, *of_questions, *of_words]) == 0
    lines = file.read_text()
    assert len(set(lines.split("\n"))) == len(lines.split("\n")) and "\naged man\n" in lines
    vectors = write_vectors(tmp_path / "use.npz", lines)
    assert similarity([str(vectors), *of_words, *output]) == 0
    assert analogies(["run", str(vectors), *of_questions, *output]) == 0
    cache = ["--cache", str(tmp_path / "vectors"), "--protocol", "fast"]
    assert layers(["--encoders", str(vectors), *of_tasks, *cache, *output]) == 0
    capsys.readouterr()
    # A task that is not there is named, and the others are written.
    assert cli([str(file), "--tasks", "MR,CR", "--data", str(data)]) == 2
    assert "left out: MR: " in capsys.readouterr().out and file.read_text() < lines
    assert cli([str(file)]) == 2
    assert "no text to list: give --tasks" in capsys.readouterr().err
    assert layers(["--encoders", str(vectors), "--tasks", "MRPC", "--data", str(data), *cache, *output]) == 2
    assert "python -m studies.sentences FILE --tasks NAMES lists all" in capsys.readouterr().err
