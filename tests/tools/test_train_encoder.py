"""The encoder that ships is made by ordinary commands: the whole chain, twice, on little text."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from corpora.support.errors import UserError
from multiview.model import MultiViewEncoder
from tests.fixtures.transformers import save_sentence_encoder
from tools import train_encoder
from tools.train_encoder import TrainEncoderConfig

pytest.importorskip("sentence_transformers")
pytest.importorskip("gensim")
SMALLER = {"--encoder.dim": 8, "--loop.batch": 10, "--vocabulary.size": 60}
TEXT = """
The old man sat on the bench, reading yesterday's paper.
"Did you see it?" he asked, and nobody answered.
A dog barked twice; the rain had stopped by then.
She bought bread, milk and two apples at the market.
The train to the north leaves at noon every day.
Few people know that the bridge was built by hand.
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)  # ten commands, each of which loads torch
@pytest.mark.parametrize("words", ["taught", "own"])
def test_the_chain_ends_in_the_same_bits_twice(
    words: Literal["taught", "own"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = list(train_encoder.RECIPE)
    for option, value in SMALLER.items():
        recipe[recipe.index(option) + 1] = value
    monkeypatch.setattr(train_encoder, "RECIPE", recipe)
    for name, part in (("taught", "taught:{teacher}"), ("own", "ngrams")):
        monkeypatch.setitem(train_encoder.WORDS, name, f"{part}@8+0.35*train:{{text}}@4")
    monkeypatch.chdir(tmp_path)
    texts = []
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text(TEXT.lstrip() * 4 + "\n" + TEXT.lstrip().upper() * 2)
        texts.append(tmp_path / name)
    teacher = None if words == "own" else str(save_sentence_encoder(tmp_path / "teacher"))
    weights = []
    for output in (Path("first"), Path("second")):
        config = TrainEncoderConfig(
            texts=tuple(texts), teacher=teacher, words=words, output=output, sentences=60, steps=3, threads=1
        )
        train_encoder.main(config)
        weights.append((output / "compact" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    # Root, mean and maximum of three views, the words and the hash.
    assert MultiViewEncoder.load("first/compact").encode("A dog barked.").shape == (3 * 3 * 8 + 12 + 4096,)


@pytest.mark.parametrize(("teacher", "words"), [(None, "taught"), ("m", "own")])
def test_a_teacher_goes_with_the_words(teacher: str | None, words: Literal["taught", "own"]) -> None:
    with pytest.raises(UserError, match=f"--words {words}: .* --teacher"):
        train_encoder.main(TrainEncoderConfig(texts=(), teacher=teacher, words=words))
