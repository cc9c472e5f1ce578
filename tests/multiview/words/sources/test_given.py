"""Vectors of model2vec folders: the whole words, bad input."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models

from corpora.support.errors import UserError
from multiview.config import TrainConfig
from multiview.folder.expanded import expanded_folder
from multiview.folder.files import load_members
from multiview.model import MultiViewEncoder
from multiview.train import cli, main
from multiview.training.data import open_trees
from multiview.words.sources.spec import open_vectors
from multiview.words.vectors import WordVectors
from tests.fixtures.trees import changed, toy_corpus

PIECES = ["[PAD]", "[UNK]", "cat", "##s", "Mars", "[unused1]", ",", "the"]


@pytest.fixture
def static(tmp_path: Path) -> Path:
    """A model2vec folder: a table and a word-piece tokenizer."""
    folder = tmp_path / "static"
    folder.mkdir()
    tokenizer = Tokenizer(
        models.WordPiece({piece: row for row, piece in enumerate(PIECES)}, unk_token="[UNK]")
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]"])
    tokenizer.save(str(folder / "tokenizer.json"))
    table = torch.arange(3 * len(PIECES), dtype=torch.float32).reshape(-1, 3)
    save_file({"embeddings": table}, folder / "model.safetensors")
    return folder


def opened(config: TrainConfig, spec: str, cache: Path) -> WordVectors:
    config = dataclasses.replace(config, words="fixed", vectors=spec)
    config.check()
    return open_vectors(config, open_trees(config.trees), cache)


def test_model2vecs_whole_words(tiny: TrainConfig, static: Path, tmp_path: Path) -> None:
    loaded = opened(tiny, str(static), tmp_path / "cache")
    assert loaded.words == ["cat", "Mars", ",", "the"]
    np.testing.assert_array_equal(loaded.vectors[:, 0], [6, 12, 18, 21])


def test_model2vecs_rows_may_be_shared_and_weighted(tiny: TrainConfig, static: Path, tmp_path: Path) -> None:
    tensors = {
        "embeddings": torch.tensor([[1.0, 2], [3, 4]], dtype=torch.float16),
        "mapping": torch.tensor([0, 0, 1, 0, 0, 0, 1, 0]),
        "weights": torch.arange(8, dtype=torch.float64),
    }
    save_file(tensors, static / "model.safetensors")
    loaded = opened(tiny, str(static), tmp_path / "cache")
    np.testing.assert_array_equal(loaded.vectors, [[6, 8], [4, 8], [18, 24], [7, 14]])


def test_model2vecs_unigram_words(tiny: TrainConfig, static: Path, tmp_path: Path) -> None:
    pieces = [("<unk>", 0.0), ("▁the", -1.0), ("s", -2.0), ("▁", -3.0), ("▁Mars", -4.0)]
    Tokenizer(models.Unigram(pieces, unk_id=0)).save(str(static / "tokenizer.json"))
    loaded = opened(tiny, str(static), tmp_path / "cache")
    assert loaded.words == ["the", "Mars"]
    np.testing.assert_array_equal(loaded.vectors[:, 0], [3, 12])


def test_bad_input_is_one_line(tiny: TrainConfig, static: Path, tmp_path: Path) -> None:
    def damaged(name: str, source: Path, file: str, content: bytes | None) -> Path:
        folder = tmp_path / name
        shutil.copytree(source, folder)
        (folder / file).unlink()
        if content is not None:
            (folder / file).write_bytes(content)
        return folder

    broken = json.loads((static / "tokenizer.json").read_text())
    broken["model"] = {"type": "BPE", "vocab": {}, "merges": []}
    cases = {
        "no such file; it wants": str(damaged("bare", static, "model.safetensors", None)),
        "tokenizer.json: no such file": str(damaged("mute", static, "tokenizer.json", None)),
        "model.safetensors: cannot be loaded": str(damaged("torn", static, "model.safetensors", b"x")),
        "tokenizer.json: not JSON": str(damaged("text", static, "tokenizer.json", b"x")),
        "not a tokenizer": str(damaged("list", static, "tokenizer.json", b"[]")),
        "a BPE tokenizer has no list": str(
            damaged("bpe", static, "tokenizer.json", json.dumps(broken).encode())
        ),
    }
    short = tmp_path / "short"
    shutil.copytree(static, short)
    save_file({"embeddings": torch.ones(5, 3)}, short / "model.safetensors")
    cases[r"embeddings [5, 3] for 8 pieces"] = str(short)
    for message, spec in cases.items():
        with pytest.raises(UserError) as caught:
            opened(tiny, spec, tmp_path / "cache")
        assert message in str(caught.value) and "\n" not in str(caught.value), message


def test_a_trained_vocabulary_grows_by_them(
    tiny: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the first words of the source that the corpus lacks; its own rows stay as they are."""
    monkeypatch.chdir(tmp_path)
    known = sorted({word for sentence in toy_corpus()[0] for word in sentence})
    listed = [*known, "zyzzyva", "quokka", "yak"]
    vectors_WE = np.random.default_rng(0).normal(size=(len(listed), 4)).astype(np.float32)
    Path("given").mkdir()
    model = models.WordPiece({word: row for row, word in enumerate(listed)}, unk_token="the")
    Tokenizer(model).save("given/tokenizer.json")
    save_file({"embeddings": torch.from_numpy(vectors_WE)}, "given/model.safetensors")
    spec = "given"
    expand = len(listed) - 1
    config = changed(
        tiny, views="seq,seq", loop={"max_steps": 2}, vectors=spec, vocabulary={"expand": expand}
    )
    assert main(config) == 0
    words = load_members(config.folder)[0].network.words
    assert words.vocabulary.words[-2:] == ["zyzzyva", "quokka"] and words.expanded == 2
    own = words.vocabulary.lookup(known)
    fitted, *_ = np.linalg.lstsq(vectors_WE[: len(known)], words.rows(0, own).detach().numpy(), rcond=None)
    new = words.rows(0, words.vocabulary.lookup(["zyzzyva", "quokka"])).detach().numpy()
    np.testing.assert_allclose(new, vectors_WE[len(known) : len(known) + 2] @ fitted, atol=1e-4)
    made = expanded_folder(config.folder, spec, words=len(listed))
    assert made.name == "tiny-expanded-given" == expanded_folder(config.folder, spec, words=len(listed)).name
    encoder = MultiViewEncoder.load(made, "cpu")
    assert encoder.members[0].network.words.vocabulary.words[-1] == "yak"
    assert MultiViewEncoder.load(config.folder, "cpu").expand_vocabulary(spec, words=len(listed)) == 3


def test_vectors_of_new_words_are_opened_before_the_training(tiny: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    config = changed(tiny, vectors=str(tmp_path), vocabulary={"expand": 9})
    with pytest.raises(UserError, match=r"tokenizer\.json: no such file"):
        main(config)
    assert not (config.folder / "train.json").exists()  # not claimed: the corrected command goes there


def test_words_of_the_corpus_alone_cannot_expand_it(
    tiny: TrainConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [f"--trees={tiny.trees}", f"--output={tiny.output}", "--vectors=train", "--vocabulary.expand=9"]
    assert cli(options) == 2
    shown = capsys.readouterr().err
    assert "--vocabulary.expand 9: --vectors train knows the trained words alone" in shown
    assert shown.count("\n") == 1
