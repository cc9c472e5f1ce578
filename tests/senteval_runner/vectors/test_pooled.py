"""``cls:NAME`` and its like: a transformer's last layer, pooled; nothing else of the folder counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from senteval_runner.protocol.features import glorot_projection
from senteval_runner.vectors.encoders import open_model

pytest.importorskip("sentence_transformers")
SENTENCES = [["the", "cat", "sat"], ["a", "cat"]]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    folder = tmp_path / "bert"
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "a"]))
    BertTokenizerFast(str(vocabulary)).save_pretrained(folder)
    shape = BertConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
    )
    BertModel(shape).eval().save_pretrained(folder)
    return folder


def states(folder: Path, tokens: list[str]) -> np.ndarray:
    """Last hidden states [T, 8], special positions included."""
    from transformers import AutoModel, AutoTokenizer

    pieces = AutoTokenizer.from_pretrained(folder)(" ".join(tokens), return_tensors="pt")
    with torch.no_grad():
        return AutoModel.from_pretrained(folder).eval()(**pieces).last_hidden_state[0].numpy()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_pooling_is_what_the_spec_says(bert: Path) -> None:
    pools = {"cls": lambda h: h[0], "mean": lambda h: h.mean(axis=0), "max": lambda h: h.max(axis=0)}
    for name, pool in pools.items():
        vectors = open_model(f"{name}:{bert}", device="cpu")(SENTENCES)
        expected = [pool(states(bert, tokens)) for tokens in SENTENCES]
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert open_model(f"cls:{bert}").name == "cls:bert"
    assert open_model(f"cls:{bert}").identity != open_model(f"max:{bert}").identity


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_control_of_table_3_projects_to_4096(bert: Path) -> None:
    opened = open_model(f"cls:{bert}", project=4096, device="cpu")
    vectors = opened(SENTENCES)
    assert vectors.shape == (2, 4096) and opened.dim == 4096
    plain = open_model(f"cls:{bert}", device="cpu")(SENTENCES)
    np.testing.assert_allclose(vectors, plain @ glorot_projection(8, 4096, seed=0), atol=1e-5)
