"""The encoder under the names that other libraries use, and the commands encode and search."""

import io
import itertools
import json
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from multiview import encode, explain, search
from multiview.encoders.meaning import Scale
from multiview.folder.files import load_model, model_folder
from multiview.model import MultiViewEncoder
from multiview.names import sentence_input
from multiview.names.recipe import recipe_of
from multiview.search import semantic_search
from multiview.sklearn import MultiViewTransformer
from runtime import large_arrays
from runtime.errors import UserError
from tests.fixtures.builtin import LINES
from tests.fixtures.trees import toy_corpus


@pytest.fixture
def folder(seq_model: Path) -> Path:
    """A model of sequences only, which needs no parser."""
    return seq_model


def test_the_names_of_sentence_transformers(folder: Path) -> None:
    encoder = MultiViewEncoder.load(folder, "cpu")
    vectors = encoder.encode(LINES)
    np.testing.assert_array_equal(encoder.encode_query(LINES), vectors)
    np.testing.assert_array_equal(encoder.encode_document(LINES, normalize_embeddings=False), vectors)
    unit, other = encoder.encode(LINES, normalize_embeddings=True), vectors[::-1].copy()
    np.testing.assert_allclose(encoder.similarity(vectors, other), unit @ unit[::-1].T, atol=1e-5)
    pairs = encoder.similarity_pairwise(vectors, other)
    torch.testing.assert_close(pairs, encoder.similarity(vectors, other).diagonal())
    with pytest.raises(UserError, match="device 'xyz'"):
        encoder.encode(LINES, device="xyz")


def test_a_saved_model_is_the_same(folder: Path, tmp_path: Path) -> None:
    encoder, copy = MultiViewEncoder.load(folder), tmp_path / "copy"
    encoder.save(copy)
    for name in ("config.json", "model.safetensors", "README.md", "vocab.txt", "time.json"):
        assert (copy / name).read_bytes() == (folder / name).read_bytes()
    before = encoder.encode(LINES)
    with torch.no_grad():
        encoder.network.words.tables[0].mul_(2)
    assert np.abs(encoder.encode(LINES) - before).max() > 1e-3
    for model in (encoder, MultiViewEncoder.untrained("seq", dim=4), MultiViewEncoder.load(folder)):
        model.save(copy)  # a model may be replaced
        np.testing.assert_array_equal(MultiViewEncoder.load(copy).encode(LINES), model.encode(LINES))
    assert (copy / "README.md").read_bytes() == (folder / "README.md").read_bytes()


def test_a_step_of_a_scikit_learn_pipeline(folder: Path) -> None:
    texts, labels = LINES * 6, [0, 1, 0] * 6
    plain, shared = MultiViewEncoder.load(folder), MultiViewEncoder.load(folder)
    x = plain.encode(LINES)
    shared.network.scale = Scale(*map(torch.from_numpy, (x.mean(axis=0), x.std(axis=0))))
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
    raw = plain.encode(LINES, normalize_embeddings=True)
    for model, expected in ((folder, raw), (shared, scaled)):
        pipeline = make_pipeline(
            clone(MultiViewTransformer(model, normalize=True)), LogisticRegression(C=100)
        )
        assert cross_val_score(pipeline, texts, labels, cv=2).mean() == 1
        step = pipeline.fit(texts, labels)[0]
        np.testing.assert_allclose(step.transform(LINES), expected, atol=1e-6)
        assert len(step.get_feature_names_out()) == 16
    assert clone(MultiViewTransformer(shared)).model is shared


@pytest.mark.usefixtures("both_devices")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sentence_transformers_opens_and_saves_a_model(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer

    from multiview import sentence_transformers as st_adapter

    expected = MultiViewEncoder.load(folder).encode(LINES)
    np.testing.assert_allclose(st_adapter.load(folder).encode(LINES), expected, atol=1e-5)
    model = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
    np.testing.assert_allclose(model.encode(LINES, batch_size=2), expected, atol=1e-5)
    assert model.encode(LINES[0]).shape == (16,)
    model.save(str(tmp_path / "copy"))
    np.testing.assert_allclose(MultiViewEncoder.load(tmp_path / "copy").encode(LINES), expected, atol=1e-6)


def test_encode_takes_a_text_a_pipe_and_a_tree_cache(
    folder: Path, corpus: Path, tmp_path: Path, toy_trees, monkeypatch, capsys
) -> None:
    encoder = MultiViewEncoder.load(folder)
    assert encode.cli([str(folder), str(corpus), "--output", str(tmp_path / "out.npy")]) == 0
    # A blank line ends a document and is no sentence.
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), encoder.encode([LINES[0], LINES[2]]))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(corpus.read_bytes())))
    assert encode.cli([str(folder), "-", "--output", str(tmp_path / "piped.npy")]) == 0
    assert (tmp_path / "piped.npy").read_bytes() == (tmp_path / "out.npy").read_bytes()
    assert json.loads((tmp_path / "out.npy.json").read_text())["model"] == str(folder)
    assert "2 x 16" in capsys.readouterr().out
    assert encode.cli([str(folder), str(toy_trees), "--output", str(tmp_path / "trees.npy")]) == 0
    expected = encoder.encode(toy_corpus()[0])
    np.testing.assert_allclose(np.load(tmp_path / "trees.npy"), expected, atol=1e-5)


@pytest.mark.parametrize("top_k", [1, 6, 40, 1000])
def test_a_search_in_blocks_is_the_sort_of_all_scores(top_k: int, monkeypatch) -> None:
    """Also with equal scores, zeros of both signs, vectors of length 0, and more hits than rows."""
    monkeypatch.setattr(search, "BLOCK_QUERIES", 3)
    monkeypatch.setattr(search, "BLOCK_SCORES", 3 * 7)
    random = np.random.default_rng(0)
    for scale in (1, 5):
        queries = random.integers(-scale, scale + 1, (8, 3)).astype(np.float32)
        stored = random.integers(-scale, scale + 1, (40, 3)).astype(np.float32)
        lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(stored, axis=1)
        cosines = np.round(queries @ stored.T / np.where(lengths > 0, lengths, 1), 5)
        for row, hits in zip(cosines, semantic_search(queries, stored, top_k=top_k), strict=True):
            np.testing.assert_allclose([hit.score for hit in hits], np.sort(row)[::-1][:top_k], atol=2e-5)
            assert [hit.score for hit in hits] == pytest.approx(
                row[[hit.corpus_id for hit in hits]], abs=2e-5
            )
            ties = itertools.pairwise(hits)
            assert all(a.score > b.score or a.corpus_id < b.corpus_id for a, b in ties)
            assert len({hit.corpus_id for hit in hits}) == min(top_k, 40)
    assert semantic_search(queries[:0], stored) == [] and semantic_search(queries, stored[:0]) == [[]] * 8


def test_the_memory_of_a_search_does_not_grow_with_queries_times_rows() -> None:
    """12,000 x 20,000 scores would take 960 MB."""
    random = np.random.default_rng(0)
    queries, stored = (random.standard_normal((n, 8), np.float32) for n in (12_000, 20_000))
    tracemalloc.start()
    hits = semantic_search(queries, stored, top_k=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(hits) == 12_000 and peak < 150e6


@pytest.mark.parametrize("top_k", [0, -1, 2.0, True, np.bool_(True), "3", None])
def test_a_number_of_hits_that_is_none_is_refused(top_k: object) -> None:
    with pytest.raises(UserError, match=r"search: top_k=.*: must be a whole number from 1"):
        semantic_search(np.eye(4), np.eye(4), top_k=top_k)


def test_search_command(folder: Path, corpus: Path, tmp_path: Path, toy_trees, monkeypatch, capsys) -> None:
    random = np.random.default_rng(0)
    queries, stored = random.normal(size=(3, 5)), random.normal(size=(40, 5))
    stored[7] = stored[20]
    for query, hits in zip(queries, semantic_search(queries, stored, top_k=6), strict=True):
        cosine = stored @ query / np.linalg.norm(stored, axis=1) / np.linalg.norm(query)
        assert [hit.corpus_id for hit in hits] == np.argsort(-cosine, kind="stable")[:6].tolist()
        assert [hit.score for hit in hits] == pytest.approx(sorted(cosine, reverse=True)[:6], abs=1e-6)

    def search_lines(*arguments: object) -> list[str]:
        assert search.cli([str(folder), *map(str, arguments)]) == 0
        return capsys.readouterr().out.splitlines()

    first, second = search_lines(corpus, LINES[2], "--top", 2)
    assert first.split(maxsplit=2) == ["1.0000", "1", LINES[2]] and float(second.split()[0]) < 1
    # Several queries, from standard input, against stored vectors of the corpus.
    assert encode.cli([str(folder), str(corpus), "--output", str(tmp_path / "v.npy")]) == 0
    capsys.readouterr()
    typed = io.BytesIO(f"{LINES[2]}\n\n{LINES[0]}\n".encode())
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=typed))
    lines = search_lines(corpus, "--top", 1, "--vectors", tmp_path / "v.npy")
    assert [line.rpartition("  ")[2] for line in lines] == [LINES[2], LINES[2], LINES[0], LINES[0]]
    words = " ".join(toy_corpus()[0][3])  # of a tree cache; a sentence is its own nearest
    assert search_lines(toy_trees, words, "--top", 1)[0].split(maxsplit=2)[::2] == ["1.0000", words]


def test_a_line_of_several_sentences_is_searched_by_each(
    folder: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("long.txt").write_text(
        "Dr. Low sleeps.\n\nA cat sat.  A dog\tran! Why?\nThe end.\n", encoding="utf-8"
    )
    for keep in ([], ["--keep"], ["--keep"]):
        assert search.cli([str(folder), "long.txt", "A dog ran!", "--top", "9", *keep]) == 0
        rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
        assert rows[0] == ["1.0000", "1", "A dog ran!"]
        places = {text: row for _, row, text in rows}
        assert places.pop("Dr. Low sleeps.") == "0" and places.pop("The end.") == "2"
        assert places == dict.fromkeys(["A cat sat.", "A dog ran!", "Why?"], "1")


@pytest.mark.parametrize("source", ["in.txt", "trees"])
def test_many_sentences_are_encoded_in_pieces(
    source: str, folder: Path, tmp_path: Path, toy_trees, monkeypatch, capsys
) -> None:
    """What is needed is said first; a killed run goes on; the vectors are those of one call."""
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("\n".join(LINES * 2), encoding="utf-8")
    path = str(toy_trees) if source == "trees" else source
    assert encode.cli([str(folder), path, "--output", "once.npy"]) == 0
    for module in (large_arrays, sentence_input):
        monkeypatch.setattr(module, "PIECE", 2)
    real, calls = MultiViewEncoder.encode, list[int]()

    def dying(self, *inputs, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, *inputs, **options)

    monkeypatch.setattr(MultiViewEncoder, "encode", dying)
    assert encode.cli([str(folder), path, "--output", "v.npy"]) == 130
    assert not Path("v.npy").exists()
    capsys.readouterr()
    assert encode.cli([str(folder), path, "--output", "v.npy"]) == 0
    assert "vectors of 16 numbers: 0.0 GB of disk" in capsys.readouterr().err
    np.testing.assert_allclose(np.load("v.npy"), np.load("once.npy"), atol=1e-5)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=0))
    assert encode.cli([str(folder), path, "--output", "w.npy"]) == 2
    assert "GB of disk, and 0.0 are free" in capsys.readouterr().err


def test_search_is_measured(folder: Path, corpus: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    """A sentence finds itself; of the texts the one that shares words is found by them."""
    monkeypatch.chdir(tmp_path)
    queries = tmp_path / "queries.tsv"
    queries.write_text(f"query\trelevant\n{LINES[2]}\t{LINES[2]}\n{LINES[0]}\t{LINES[0]}\n", encoding="utf-8")
    assert search.cli([str(folder), str(corpus), "--queries", str(queries)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["queries", "2", "among"]
    assert "P@1 100.0, MRR 100.0, recall@10 100.0" in lines[1] and lines[1].startswith(str(folder))
    queries.write_text("query\trelevant\nx\tnot there\n", encoding="utf-8")
    assert search.cli([str(folder), str(corpus), "--queries", str(queries)]) == 2
    assert "lacks the relevant sentence 'not there'" in capsys.readouterr().err


def test_search_keeps_the_vectors_of_a_text(folder: Path, corpus: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(corpus.parent)
    encoded: list[int] = []
    real = MultiViewEncoder._vectors

    def counting(self, inputs, *options):
        encoded.append(len(inputs) if isinstance(inputs, list) else 1)
        return real(self, inputs, *options)

    monkeypatch.setattr(MultiViewEncoder, "_vectors", counting)

    def ask(*more: str) -> tuple[int, str]:
        """Sentences encoded by a question, itself included, and the nearest one."""
        encoded.clear()
        assert search.cli([str(folder), "in.txt", "cat", "--keep", "--top", "1", *more]) == 0
        return sum(encoded), capsys.readouterr().out

    first = ask()
    assert [first[0], ask()] == [3, (1, first[1])]
    stored_vectors = next(Path("runs/vectors").glob("search-*/vectors.npy"))
    stored_vectors.write_bytes(stored_vectors.read_bytes()[:-1])  # damaged: made again
    assert [ask(), ask()] == [first, (1, first[1])]
    assert [ask("--views", "0-seq")[0], ask("--views", "0-seq")[0]] == [3, 1]
    corpus.write_text("\x1b[31mcat\tand dog\n" + corpus.read_text())
    answer = ask()
    assert answer[0] == 4 and "\x1b" not in answer[1]


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (search, "MODEL -", "give the queries as arguments"),
        (search, "MODEL in.txt", "-, line 2: not UTF-8"),
        (search, "MODEL none.txt q", "none.txt: no such file"),
        (search, "MODEL in.txt q --vectors other.npy", "holds 3 x 2 numbers"),
        (encode, "MODEL bad.txt", "bad.txt, line 2: not UTF-8"),
        (encode, "none in.txt --output x.csv", "must end in .npy"),
        (encode, "none in.txt --output in.txt/x.npy", "in.txt/x.npy: is not a regular file in a folder"),
        (encode, "MODEL v.npy.json --output v.npy", "would replace v.npy.json, which is read"),
        (search, "MODEL in.txt q --structure -0.0 --views none", "view 'none'"),
        (explain, "MODEL?views=seq cat dog", "is read whole here; leave out ?views"),
        (encode, "given.npz in.txt --views dep", "expected MODEL, MODEL?views=VIEWS"),
        (encode, "given.npz in.txt", "no vector for 1 of 2 sentences, first 'stock prices fell !'"),
        (encode, "given.npz in.txt --expand in.txt", "given.npz?expand=in.txt': expected MODEL"),
        (encode, "start:builtin in.txt", "expected start:MODEL?corpus=runs/trees/NAME"),
        (encode, "nan.npz in.txt", "NaN or infinity for 1 of 2 sentences, first 'stock prices fell !'"),
    ],
)
def test_bad_input_is_one_line(
    folder, corpus, monkeypatch, command, arguments, message: str, refusal
) -> None:
    monkeypatch.chdir(corpus.parent)
    Path("bad.txt").write_bytes(b"fine\n\xff\xfe\n")
    Path("v.npy.json").write_text("fine\n")
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"cat\n\xff\n")))
    np.save("other.npy", np.zeros((3, 2), dtype=np.float32))
    np.savez("given.npz", sentences=LINES[:1], vectors=np.ones((1, 2)))
    np.savez("nan.npz", sentences=LINES[::2], vectors=np.array([[1.0], [np.nan]]))
    before = set(Path().iterdir())
    assert message in refusal(command.cli, *arguments.replace("MODEL", str(folder)).split())
    assert set(Path().iterdir()) == before


def test_builtin_is_the_name_of_a_folder(builtin: Path, corpus: Path, refusal) -> None:
    encoder = MultiViewEncoder.load("builtin")
    expected = MultiViewEncoder.load(builtin).encode(LINES)
    np.testing.assert_array_equal(encoder.encode(LINES), expected)
    assert encoder.name == "builtin" and encoder.folder == builtin
    assert model_folder("builtin") == model_folder(Path("builtin")) == builtin
    assert model_folder("./x/builtin") == Path("x/builtin")
    np.testing.assert_array_equal(MultiViewTransformer("builtin").fit_transform(LINES), expected)
    assert "seq 8 + seq 8 = 16 dimensions" in repr(encoder)
    for name in ("bultin", "built-in", "Builtin"):
        assert f"model '{name}': no such folder; did you mean builtin?" in refusal(encode.cli, name, corpus)
        with pytest.raises(UserError, match="did you mean builtin"):
            recipe_of(name)


def test_the_packaged_encoder_is_small_and_says_where_its_data_come_from() -> None:
    folder = model_folder("builtin")
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 20e6
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "CC BY-SA 3.0" in card and "public domain" in card and "Apache-2.0" in card
    network = load_model(folder).network
    assert network.views == ("dep", "const", "seq", "bag", "spelling")
    fitted, scale = network.readout, network.scale
    assert (
        fitted is not None and scale is not None and (fitted.dim, len(scale.feature_indices)) == (384, 2560)
    )
