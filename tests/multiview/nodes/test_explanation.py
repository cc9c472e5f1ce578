"""What is shown of two sentences: matches, drawings, the page, the command."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview import explain
from multiview.encoders.registry import Reading
from multiview.folder.reading import Reader
from multiview.model import MultiViewEncoder
from multiview.nodes.explanation import covers_of
from parsing.text_parser import load_parser
from tests.fixtures.browser import look
from tests.multiview.nodes.given_trees import GivenTrees, given_encoder
from tests.parsing.pipeline.toy_parsers import ToyConstituencyParser, ToyDependencyParser

A = 'He said : " ( Well , it \'s fine ) , [ sic ] " .'
B = '" It \'s fine , " he said <script>alert(1)</script> & left .'


@pytest.fixture(scope="module")
def encoder() -> MultiViewEncoder:
    """Untrained, with the parsers that ship."""
    return new_encoder()


def new_encoder() -> MultiViewEncoder:
    encoder = MultiViewEncoder.untrained("dep,const,seq", dim=8, word_dim=6, device="cpu", start="bag")
    encoder.reader.corpus = {"tokenizer": "space"}
    encoder.reader.parsers["dep"] = load_parser("dep")
    encoder.reader.parsers["const"] = load_parser("const")
    return encoder


def test_every_cosine_is_that_of_the_vectors(encoder: MultiViewEncoder) -> None:
    found = encoder.explain(A, B)
    both = encoder.encode([A, B])
    assert found.cosine == pytest.approx(float(encoder.similarity(both[0], both[1])), abs=1e-6)
    assert list(found.cosines) == ["dep", "const", "seq"]
    for view, cosine in found.cosines.items():
        alone = encoder.encode([A, B], views=[view])
        assert cosine == pytest.approx(float(encoder.similarity(alone[0], alone[1])), abs=1e-6)
    assert found.trees == {"dep": "dep", "const": "const"}
    labels = encoder.reader.inventories()
    for view in ("dep", "const"):
        matches = [match for match in found.matches if match.view == view]
        assert [match.number for match in matches] == list(range(1, len(matches) + 1)) and matches
        sides = []
        for sentence in (A, B):
            (nodes,) = encoder.node_states([sentence], views=[view])
            cover_NW, named_N = covers_of(nodes.batch, 0, view, labels.dummy_label)
            named = nodes.views[0].h_ND.numpy()[named_N]
            covers = [tuple(np.flatnonzero(cover_W).tolist()) for cover_W in cover_NW[named_N]]
            sides.append(dict(zip(covers, named, strict=True)))
        for match in matches:
            vectors = [side[part.positions] for side, part in zip(sides, (match.a, match.b), strict=True)]
            cosine = np.dot(*vectors) / np.linalg.norm(vectors[0]) / np.linalg.norm(vectors[1])
            assert match.cosine == pytest.approx(cosine, abs=1e-5)


def test_pools_side_by_side_and_added_views_match_the_same_nodes(encoder: MultiViewEncoder) -> None:
    wide = new_encoder()
    (part,) = wide.members
    part.network = part.network.as_read(Reading("root,mean,max", ("bag", "hash"), (1.0,) * 5))
    found = wide.explain(A, B)
    assert list(found.cosines) == ["dep", "const", "seq", "bag", "hash"]
    for view, cosine in found.cosines.items():
        one, other = wide.encode([A, B], views=[view])
        assert cosine == pytest.approx(float(encoder.similarity(one, other)), abs=1e-6)
    assert found.matches == encoder.explain(A, B).matches


def test_a_number_stands_at_the_top_of_its_subtree() -> None:
    """Trees made up, so that the drawing can be written down."""
    trees = GivenTrees()
    one, other = ("a", "b", "c", "d"), ("e", "b", "c", "f")
    for tokens in (one, other):
        trees.heads[tokens] = [0, 4, 2, 1]  # a → d → b → c
        trees.spans[tokens] = [(0, 4), (1, 3)]
    encoder = given_encoder(trees)
    dep = str(encoder.explain(one, other, view="dep", top=1))
    assert "a  (root, 1)\n└─ d  (any, 4)\n   └─ b  (any [1], 2)\n      └─ c  (any, 3)" in dep
    const = str(encoder.explain(one, other, view="const", top=1))
    assert "A, const\nX\n  T a\n  X [1]\n    T b\n    T c\n  T d" in const
    assert "  [1] 1.0000  b c  |  b c" in dep and "  [1] 1.0000  b c  |  b c" in const


def test_a_subtree_that_leaves_words_out() -> None:
    trees = GivenTrees()
    one, other = ("a", "b", "c", "d"), ("c", "a")
    trees.heads[one], trees.heads[other] = [2, 0, 1, 2], [2, 0]  # b → a → c and b → d; a → c
    (first, *_) = given_encoder(trees, "dep").explain(one, other).matches
    assert (first.a.words, first.a.positions, first.a.top) == ("a … c", (0, 2), 0)
    assert (first.b.words, first.b.positions, first.b.top) == ("c a", (0, 1), 1)
    assert first.cosine == pytest.approx(1, abs=1e-6)  # the order of dependents says nothing to DEP


def test_the_page_is_whole_and_escaped(encoder: MultiViewEncoder, tmp_path: Path) -> None:
    page = encoder.explain(A, B).to_html()
    assert "<script" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "&amp; left" in page
    assert not re.search(r"(?:src|href)=[\"']?https?:", page)
    assert page.count("<svg") >= 4 and "color-scheme:light dark" in page
    seen = look(page, tmp_path)
    for window, found in seen.items():
        assert (found["paper"] == "rgb(255, 255, 255)") == window.endswith("light")
    fragment = encoder.explain(A, B)._repr_html_()
    assert fragment in page and "<html" not in fragment


@pytest.mark.parametrize("text", ["", "Word", "!!!"])
def test_short_sentences(encoder: MultiViewEncoder, text: str) -> None:
    for pair in ((text, A), (A, text), (text, text)):
        found = encoder.explain(*pair)
        assert str(found) and found.to_html()
        assert all(len(m.a.positions) > 0 and len(m.b.positions) > 0 for m in found.matches)
    assert "no subtrees match" in str(encoder.explain(text, text)) and not encoder.explain(text, text).matches


def test_what_has_no_trees_is_refused_in_one_line(encoder: MultiViewEncoder) -> None:
    with pytest.raises(UserError, match=r"explain: no trees in seq; it needs a model with the view dep or"):
        encoder.explain(A, B, view="seq")
    with pytest.raises(UserError, match="view 'cosnt'"):
        encoder.explain(A, B, view="cosnt")
    with pytest.raises(UserError, match=r"'word word .* has 200 words, too many for the parsers"):
        encoder.explain(A, "word " * 200)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose parsers load in no time."""
    toys = {"dep": ToyDependencyParser(), "const": ToyConstituencyParser()}
    loaded = Reader.parser

    def parser(self: Reader, need: str) -> object:
        self.parsers.setdefault(need, toys[need])
        return loaded(self, need)

    monkeypatch.setattr(Reader, "parser", parser)
    for name in ("dep,const", "seq"):
        MultiViewEncoder.untrained(name, dim=8, word_dim=6, device="cpu").save(tmp_path / "models" / name)
    return tmp_path / "models"


def test_command(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, output = str(folder / "dep,const"), tmp_path / "out" / "page.html"
    words = [model, "the cat slept on a mat", "a mat is under the cat"]
    assert explain.cli([*words, "--view", "dep", "--top", "2", "--output", str(output)]) == 0
    shown = capsys.readouterr()
    assert "A, dep\n" in shown.out and "const" not in shown.out and "[3]" not in shown.out
    assert shown.err == ""
    assert output.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [path.name for path in output.parent.iterdir()] == ["page.html"]
    assert explain.cli([str(folder / "seq"), "a", "b"]) == 2
    assert "no trees in seq" in capsys.readouterr().err
