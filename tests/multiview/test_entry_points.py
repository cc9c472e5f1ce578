"""Every entry point takes sentences alike; with_structure takes any vectors that numpy reads."""

import copy
import pickle
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError

import parsing
from multiview.judge import Judge
from multiview.model import MultiViewEncoder
from multiview.search import semantic_search
from multiview.sklearn import MultiViewTransformer
from multiview.structure import with_structure
from multiview.structure.beside import WithStructure
from multiview.structure.binding import WIDTH
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from senteval_runner.mteb import MtebEncoder

TEXTS = ["The lawyer praised the doctor.", "Rain fell.", "The doctor slept."]


class Lengths:
    """Another encoder: of no sentences it gives [0], as sentence-transformers does."""

    name = "lengths"

    def __init__(self, change=np.asarray) -> None:
        self.change = change

    def encode(self, texts: list[str], **_: object) -> Any:
        assert isinstance(texts, list)
        return self.change(np.array([[len(text), 1] for text in texts], np.float32))


@pytest.fixture(scope="module")
def entry_points(packaged_encoder: MultiViewEncoder):
    return {
        "encode": packaged_encoder.encode,
        "structure": packaged_encoder.structure_vectors,
        "scikit-learn": MultiViewTransformer(packaged_encoder).fit([]).transform,
        "with_structure": with_structure(Lengths(), 0.15, packaged_encoder).encode,
        "mteb": lambda texts: MtebEncoder(packaged_encoder, "ours").encode([{"text": texts}]),
        "parse": parsing.load(const=None).parse,
    }


NAMES = ("encode", "structure", "scikit-learn", "with_structure", "mteb")


@pytest.mark.parametrize("name", NAMES)
def test_a_column_an_array_and_a_generator_have_the_rows_of_the_list(entry_points, name: str) -> None:
    expected = entry_points[name](TEXTS)
    for same in (pd.Series(TEXTS), np.array(TEXTS), tuple(TEXTS), (text for text in TEXTS)):
        np.testing.assert_allclose(entry_points[name](same), expected, atol=1e-5)
    none = entry_points[name]([])
    assert none.shape == (0, expected.shape[1]) and none.dtype == np.float32


@pytest.mark.parametrize("name", [*NAMES, "parse"])
@pytest.mark.parametrize(
    "wrong",
    [
        *(pd.DataFrame({"text": TEXTS}), np.array(TEXTS).reshape(-1, 1), {"text": TEXTS}, set(TEXTS)),
        *([TEXTS], [TEXTS[:1]], [TEXTS[0].split(), None], pd.Series(["Rain", np.nan]), [float("nan")]),
        *(b"Rain", 7, ["fine", "a \ud800 cat"]),
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_what_is_no_list_of_sentences_is_one_line(entry_points, name: str, wrong: object) -> None:
    with pytest.raises(UserError) as caught:
        entry_points[name](wrong)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.astype(">f4"),
        lambda rows: rows[::-1].copy()[::-1],
        lambda rows: np.asfortranarray(rows.astype(np.float64)),
        lambda rows: rows.astype(np.float16).tolist(),
        lambda rows: rows.astype(np.int16),
        lambda rows: [torch.from_numpy(row) for row in rows],
        lambda rows: torch.from_numpy(rows).requires_grad_(),
        lambda rows: torch.from_numpy(rows).bfloat16(),
        lambda rows: pd.DataFrame(rows),
    ],
)
def test_any_array_of_numbers_stands_beside_structure(packaged_encoder: MultiViewEncoder, change) -> None:
    expected = WithStructure(Lengths(), 0.15, packaged_encoder).encode(TEXTS)
    model = WithStructure(Lengths(change), 0.15, packaged_encoder)
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-6)
    assert isinstance(model.encode(TEXTS[0], convert_to_tensor=True), torch.Tensor)


@pytest.mark.parametrize("factor", [1e-30, 1e-12, 1e12, 1e25])
def test_cosines_do_not_see_how_large_numbers_are(packaged_encoder: MultiViewEncoder, factor: float) -> None:
    rows = np.array([[3, 4], [4, 3], [0, 5]], np.float32)
    cosines = [[1, 0.96, 0.8], [0.96, 1, 0.6], [0.8, 0.6, 1]]
    for same in (rows.tolist(), torch.from_numpy(rows).half(), rows.astype(">f8"), [*torch.from_numpy(rows)]):
        np.testing.assert_allclose(packaged_encoder.similarity(same, rows), cosines, atol=1e-6)
    far = rows * np.float32(factor)
    np.testing.assert_allclose(packaged_encoder.similarity(far, rows), cosines, atol=1e-6)
    np.testing.assert_allclose(packaged_encoder.similarity_pairwise(far, far), 1, atol=1e-6)
    hits = semantic_search(far, far)
    assert [(hit.corpus_id, round(hit.score, 5)) for hit in hits[0]] == [(0, 1.0), (1, 0.96), (2, 0.8)]
    own = WithStructure(Lengths(lambda rows: rows * np.float32(factor)), 0.15, packaged_encoder).encode(TEXTS)
    np.testing.assert_allclose(own, WithStructure(Lengths(), 0.15, packaged_encoder).encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize(
    "rows",
    [
        *(np.ones((2, 3)), np.ones((1, 1, 2)), np.ones((1, 2), complex)),
        *([[np.nan, 1.0]], [[np.inf, 1.0]], [[1.0], [1.0, 2.0]], ["a"], None, 1.0),
    ],
)
def test_what_are_no_vectors_is_one_line(packaged_encoder: MultiViewEncoder, rows: Any) -> None:
    right = np.ones((3, 2), np.float32)
    for compare in (packaged_encoder.similarity, packaged_encoder.similarity_pairwise):
        for pair in ((rows, right), (right, rows)):
            with pytest.raises(UserError, match=r"^similarity"):
                compare(*pair)
    if isinstance(rows, np.ndarray) and rows.ndim == 2:
        with pytest.raises(UserError, match=r"^search"):
            semantic_search(rows, right)
    with pytest.raises(UserError, match="NaN"):
        semantic_search(np.full((1, 2), np.nan), right)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda rows: np.where(rows == 10, np.nan, rows),
            "NaN or infinity for 1 of 3 sentences, first 'Rain",
        ),
        (lambda rows: rows.astype(np.float64) * 1e300, "NaN or infinity for 3 of 3"),
        (lambda rows: rows[1:], r"float32 \[2, 2\] for 3 sentences"),
        (lambda rows: rows[0], r"float32 \[2\] for 3 sentences"),
        (lambda rows: [[1.0], [1.0, 2.0], [1.0]], "returned a list that is no array"),
        (lambda rows: None, "returned object"),
        (lambda rows: rows.astype(str), "returned <U"),
    ],
)
def test_what_an_encoder_must_not_return_is_one_line(
    packaged_encoder: MultiViewEncoder, change, message: str
) -> None:
    with pytest.raises(UserError, match=f"^Lengths: encode.*{message}"):
        WithStructure(Lengths(change), 0.15, packaged_encoder).encode(TEXTS)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]
)
def test_encoders_can_be_copied_and_pickled(packaged_encoder: MultiViewEncoder, copied) -> None:
    for model in (packaged_encoder, with_structure(Lengths(), 0.15, packaged_encoder)):
        np.testing.assert_allclose(copied(model).encode(TEXTS), model.encode(TEXTS), atol=1e-6)
    structured = copied(with_structure(Lengths(), 0.5, packaged_encoder))
    vectors = structured.encode(TEXTS)
    assert structured.name == "lengths" and vectors.shape[1] == WIDTH + 2
    assert structured.similarity(vectors[0], vectors[2])[0, 0] < 0.9  # their lengths alone: 1


def test_use_changes_neither_hash_nor_pickle(packaged_encoder: MultiViewEncoder) -> None:
    """Libraries name what they computed by such hashes."""
    makers = [
        lambda: MultiViewEncoder.load("builtin", "cpu"),
        lambda: with_structure(Lengths(), 0.15, MultiViewEncoder.load("builtin", "cpu")),
        lambda: MultiViewEncoder.untrained("dep,seq", dim=4, word_dim=4, device="cpu"),
    ]
    for make in makers:
        model = make()
        before = joblib.hash(model)
        model.encode(["The xyzzyva slept."])
        assert joblib.hash(model) == before
    parser = parsing.load()
    before = joblib.hash(parser)
    trees = parser(TEXTS[0])
    assert joblib.hash(parser) == before and pickle.loads(pickle.dumps(parser))(TEXTS[0]) == trees


@pytest.fixture(scope="module")
def adapted() -> Any:
    pytest.importorskip("sentence_transformers")
    from multiview import sentence_transformers

    return sentence_transformers.load("builtin")


@pytest.mark.parametrize("to", ["half", "bfloat16", "double", "float"])
def test_an_adapter_computes_in_float32_whatever_it_is_cast_to(adapted, packaged_encoder, to: str) -> None:
    vectors = getattr(copy.deepcopy(adapted), to)().encode(TEXTS)
    np.testing.assert_allclose(vectors, packaged_encoder.encode(TEXTS), atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.to("meta"), "device 'meta' cannot be used"),
        (lambda model: model.encode(pd.Series(TEXTS)), r"a Series of shape \(3,\)"),
        (lambda model: model.train()(model.preprocess(TEXTS)), "cannot train this model"),
        (lambda model: type(model[0]).load("builtin", backend="onnx"), "backend='onnx'"),
    ],
)
def test_an_adapter_refuses_in_one_line(adapted, call, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call(adapted)
    adapted.eval()
    tokens = [text[:-1].split() for text in TEXTS]
    np.testing.assert_allclose(adapted.encode(tokens), adapted[0].encoder.encode(tokens), atol=1e-6)


def test_scikit_learn_names_its_columns_and_wants_fit_first(packaged_encoder: MultiViewEncoder) -> None:
    step = MultiViewTransformer(packaged_encoder).set_output(transform="pandas")
    with pytest.raises(NotFittedError):
        step.transform(TEXTS)
    frame = step.fit_transform(pd.Series(TEXTS))
    assert list(frame.columns[:2]) == ["multiviewtransformer0", "multiviewtransformer1"] and len(frame) == 3
    with pytest.raises(UserError, match="transform: a str"):
        step.transform(TEXTS[0])


@pytest.mark.parametrize(
    ("option", "values"),
    {
        "batch_size": [0, 1.5, None],
        "truncate_dim": ["2", 0],
        "structure": ["0.1", float("nan"), 2, True],
        "device": [1.5, ["cpu"], np.ones(2)],
        "trees": ["runs/trees/corpus"],
        "views": [1, [["dep"]], [{}]],
        "convert_to_tensor": [np.ones(2)],
        "prompt": ["query: ", np.ones(2)],
        **{"precision": ["int8"], "output_value": ["token_embeddings"]},
        "readout": [np.ones(2)],
    }.items(),
)
def test_an_option_of_another_type_is_one_line(
    packaged_encoder: MultiViewEncoder, option: str, values: list
) -> None:
    for value in values:
        with pytest.raises(UserError, match=option):
            packaged_encoder.encode(TEXTS, **{option: value})


@pytest.mark.parametrize("path", [None, 1, 1.5, ["x"], {}, np.ones(2), "x" * 5000, "a\0b"])
def test_what_is_no_path_is_one_line(path: Any) -> None:
    for open_it in (MultiViewEncoder.load, TreeCache.open, parsing.load, Judge.load):
        if path is not None or open_it is not parsing.load:
            with pytest.raises(UserError, match=r"^(model|tree cache|dep parser|judge)"):
                open_it(path)


def test_arguments_of_another_type_are_one_line(packaged_encoder: MultiViewEncoder) -> None:
    for top in (None, 0, 1.5, [1]):
        with pytest.raises(UserError, match=r"explain: top="):
            packaged_encoder.explain("A cat sat.", "It slept.", top=top)  # type: ignore[arg-type]
    assert (
        packaged_encoder.word_vectors(pd.Series(["cat", "dog"])).shape
        == packaged_encoder.word_vectors(["cat", "dog"]).shape
    )
    with pytest.raises(UserError, match=r"word_vectors: a str \('cat'\) is no list"):
        packaged_encoder.word_vectors("cat")
    for wrong in (None, "builtin", np.zeros(2)):
        with pytest.raises(UserError, match=r"with_structure: a .* has no encode"):
            with_structure(wrong)
