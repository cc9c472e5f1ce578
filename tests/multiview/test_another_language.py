"""The page on another language, walked with a small German treebank; what it promises of UPOS."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from multiview.model import MultiViewEncoder
from parsing import load
from tests.fixtures.commands import cli_of
from tests.fixtures.pages import run_small
from tests.fixtures.processes import ROOT

PAGE = (ROOT / "docs/another-language.md").read_text(encoding="utf-8")
FORMS = [
    ("Der {0} {2} die {1} .", "ART NN VVFIN ART NN $.", (2, 3, 0, 5, 3, 3), "det nsubj root det obj punct"),
    ("Der {0} {2} in der Not .", "ART NN VVFIN APPR ART NN $.", (2, 3, 0, 6, 6, 3, 3),
     "det nsubj root case det obl punct"),
]  # fmt: skip


def german(count: int, first: int = 0) -> list[tuple[list[str], str]]:
    """Sentences as words, and as a block of a treebank."""
    sentences = []
    for n in range(first, first + count):
        text, tags, heads, relations = FORMS[n % 2]
        nouns = ("Hund", "Bäcker", "Mann", "Wagen")[n % 4], ("Katze", "Frau", "Stadt")[n % 5 % 3]
        words = text.format(*nouns, ("sieht", "liebt", "sucht")[n % 3]).split()
        columns = zip(words, tags.split(), heads, relations.split(), strict=True)
        rows = [f"{i}\t{w}\t_\t_\t{t}\t_\t{h}\t{r}\t_\t_\n" for i, (w, t, h, r) in enumerate(columns, 1)]
        sentences.append((words, "".join(rows)))
    return sentences


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the page's commands have run, as printed but for sizes."""
    folder = tmp_path_factory.mktemp("german")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, count, first in (("train", 80, 0), ("dev", 10, 80), ("test", 10, 90)):
            blocks = [block for _, block in german(count, first)]
            Path(f"{name}.conllu").write_text("\n".join(blocks), encoding="utf-8")
        documents = ["".join(" ".join(words) + "\n" for words, _ in german(6, at)) for at in range(0, 60, 6)]
        Path("text.txt").write_text("\n".join(documents), encoding="utf-8")
        commands = re.findall(r"^ {4}python -m (.*)$", PAGE.replace("\\\n", " "), re.MULTILINE)
        assert len(commands) == 5
        for line in commands:
            module, *words = shlex.split(line)
            run_small(module, words)
    return folder


def test_the_page_works_as_printed(walked: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(walked)
    parser = "runs/parsers/german/dep"
    assert 'dep_model="FOLDER OF german-dep"' in Path("runs/models/german/README.md").read_text()
    assert "readout builtin" not in Path("runs/models/german/log.txt").read_text()
    words = german(1)[0][0]
    own = MultiViewEncoder.load("runs/models/german", "cpu", dep_model=parser)
    command = ["runs/models/german", "text.txt", "--device", "cpu", "--output", "v.npy"]
    assert cli_of("multiview.encode")([*command, "--dep-model", parser]) == 0
    np.testing.assert_allclose(np.load("v.npy")[0], own.encode([words])[0], atol=1e-5)
    # Without it every command says what to type next.
    capsys.readouterr()
    assert cli_of("multiview.encode")(command) == 2
    error_lines = capsys.readouterr().err
    assert "dependency parser german-dep" in error_lines and "give that one as --dep-model" in error_lines
    assert cli_of("parsing.run")(["text.txt", "--dep-model", "runs/parsers/german"]) == 2
    assert "give runs/parsers/german/dep" in capsys.readouterr().err


def test_upos_of_another_language_is_not_english(walked: Path) -> None:
    """ "Not" is a German noun; English rules would call it a particle."""
    parser = load(dep=str(walked / "runs/parsers/german/dep"), const=None)
    trees = parser.parse([words for words, _ in german(2)])
    assert trees[1].relations == FORMS[1][3].split()
    rows = [line.split("\t") for line in trees.to_conllu().splitlines() if line[:1].isdigit()]
    assert [row[3] for row in rows[6:]] == ["DET", "X", "X", "ADP", "DET", "X", "PUNCT"]
