"""Blocks of docs/other-libraries.md run as printed; libraries are stood in for by their interfaces."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/other-libraries.md"
BLOCKS = dict(re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S))

pytestmark = pytest.mark.repo


class Vectorizer:  # redisvl.utils.vectorize.CustomVectorizer, 0.11
    def __init__(self, embed: Any, embed_many: Any = None) -> None:
        self.embed, self.embed_many = embed, embed_many
        assert all(isinstance(value, float) for value in embed("dimension test"))


class Index:  # faiss.IndexFlatIP, 1.8
    def __init__(self, size: int) -> None:
        self.rows = np.zeros((0, size), np.float32)

    def add(self, rows: np.ndarray) -> None:
        assert rows.shape[1] == self.rows.shape[1] and rows.dtype == np.float32
        self.rows = np.concatenate([self.rows, rows])

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        cosines = queries @ self.rows.T
        rows = np.argsort(-cosines, axis=1)[:, :k]
        return np.take_along_axis(cosines, rows, 1), rows


FAKES: dict[str, dict[str, Any]] = {
    "gptcache.similarity_evaluation": {"SimilarityEvaluation": object},
    "redisvl.utils.vectorize": {"CustomVectorizer": Vectorizer},
    "langchain_core.embeddings": {"Embeddings": object},
    "faiss": {"IndexFlatIP": Index},
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, members in FAKES.items():
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            monkeypatch.setitem(sys.modules, ".".join(parts[:length]), ModuleType(name))
        vars(sys.modules[name]).update(members)

    def block(title: str) -> dict[str, Any]:
        names: dict[str, Any] = {}
        exec(compile(BLOCKS[title], f"{PAGE}: {title}", "exec"), names)
        return names

    return block


def test_gptcache_takes_no_opposite_question(run: Any) -> None:
    same = run("GPTCache")["SameQuestion"]()
    question, opposite = {"question": "How do I enable it?"}, {"question": "How do I disable it?"}
    assert same.evaluation(question, opposite) < 0.5 < same.evaluation(question, question)
    assert same.range() == (0.0, 1.0)


def test_redisvl_and_langchain_get_lists_of_numbers(run: Any) -> None:
    vectorizer, embeddings = run("redisvl")["vectorizer"], run("LangChain")["Structured"]()
    assert [len(row) for row in vectorizer.embed_many(["Enable it.", "Rain."])] == [1408, 1408]
    assert np.allclose(embeddings.embed_documents(["Rain."])[0], embeddings.embed_query("Rain."), atol=1e-5)


def test_faiss_answers_no_opposite_question(run: Any) -> None:
    answered = run("FAISS")["answered"]
    assert answered("How do I disable the camera?") is None
    assert answered("How do I open an account?") == "How do I open an account?"
