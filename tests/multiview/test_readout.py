"""Read-outs and scales: closed forms against scikit-learn and numpy, ``encode``, how a folder keeps them."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.cross_decomposition import CCA
from sklearn.linear_model import LinearRegression, Ridge

from multiview import readout
from multiview.encoders.meaning import (
    FEATURE_LENGTH,
    Readout,
    Scale,
    SentenceRange,
    sample_ranges,
)
from multiview.folder.card import readout_card
from multiview.folder.files import model_folder
from multiview.model import MultiViewEncoder
from multiview.structure.binding import WIDTH
from multiview.training.fit import Moments, Target, store_readout
from runtime.cli import warn_once
from runtime.errors import UserError
from runtime.files import read_record
from tests.fixtures.models import encoder_of, reseal, save_compact
from tests.fixtures.trees import toy_corpus, toy_words
from tests.parsing.pipeline.toy_parsers import write_cache

TEXTS = ["The lawyer praised the doctor.", "Rain.", "", "The doctor praised the lawyer."]


@pytest.mark.parametrize("strength", [1e-6, 0.3])
def test_the_closed_form_is_ridge_regression(strength: float) -> None:
    random = np.random.default_rng(3)
    x = (random.normal(size=(8291, 7)) * [1, 9, 0.1, 2, 1, 1, 1] + 5).astype(np.float32)
    y = x @ random.normal(size=(7, 4)) + random.normal(size=(len(x), 4)) + [3, 0, 0, 1]
    moments = Moments()
    for part in np.array_split(np.arange(len(x)), 3):
        moments.add(x[part], y[part])
    readout = moments.fit(strength, dim=4)
    exact = x.astype(np.float64)
    alpha = strength * exact.var(axis=0).mean() * len(x)
    theirs = Ridge(alpha=alpha).fit(exact, y).predict(exact)
    ours = torch.from_numpy(x).double() @ readout.weight.double().T + readout.bias
    # The predictions, turned; those of one sentence are told apart by all products of two.
    np.testing.assert_allclose(ours[:50] @ ours[:50].T, theirs[:50] @ theirs[:50].T, rtol=1e-4)
    assert readout.axes_TK is not None
    np.testing.assert_allclose(ours @ readout.axes_TK.double().T, theirs, atol=1e-3)
    moment = (ours.T @ ours).numpy() / len(x)
    np.testing.assert_allclose(moment, np.diag(np.diag(moment)), atol=1e-3 * moment[0, 0])
    assert (np.diff(np.diag(moment)) < 0).all()
    cut = moments.fit(strength, dim=2)
    torch.testing.assert_close(cut.weight, readout.weight[:2])
    torch.testing.assert_close(readout(torch.from_numpy(x), 2), cut(torch.from_numpy(x)))
    with pytest.raises(UserError, match="cannot have 5 numbers: the teacher has 4; ask for fewer"):
        moments.fit(strength, dim=5)


def test_neighbours_are_canonical_directions() -> None:
    """What scikit-learn's CCA finds in neighbours taken both ways, each by the root of its correlation."""
    random = np.random.default_rng(4)
    topic = random.normal(size=(4000, 3)) * [3, 2, 1]
    left, right = (
        np.concatenate([topic + random.normal(size=(4000, 3)), random.normal(size=(4000, 2)) * 9], axis=1) + 5
        for _ in range(2)
    )
    moments = Moments(of_neighbours=True)
    moments.add(left, right)
    moments.add(right, left)
    readout = moments.fit(1e-9, 3)
    x, y = np.concatenate([left, right]), np.concatenate([right, left])
    cca = CCA(3, scale=False, max_iter=5000, tol=1e-12).fit(x, y)
    roots = [np.corrcoef(*pair)[0, 1] for pair in zip(*(v.T for v in cca.transform(x, y)), strict=True)]
    ours = readout.weight.double().numpy() @ x.T + readout.bias.double().numpy()[:, None]
    np.testing.assert_allclose(ours.mean(axis=1), 0, atol=1e-4)
    np.testing.assert_allclose(ours.var(axis=1), roots, rtol=1e-3)  # unit variance, by √ρ
    cosines = np.abs(np.corrcoef(ours, cca.transform(x).T)[:3, 3:])
    np.testing.assert_allclose(np.diag(cosines), 1, atol=1e-3)


def test_one_vector_for_all_sentences_has_no_read_out() -> None:
    same = np.full((900, 4), 0.3, np.float32)
    for of_neighbours in (True, False):
        moments = Moments(of_neighbours=of_neighbours)
        moments.add(same, same)
        with pytest.raises(UserError, match="the views give every sentence the same vector"):
            moments.fit(0.1, 2)


def test_features_are_scaled_and_without_what_others_tell() -> None:
    """One at a time: the number that those left tell best, so that of two nearly equal ones one stays."""
    random = np.random.default_rng(0)
    x_ND = random.normal(size=(3000, 9)) * [1, 5, 0.1, 2, 1, 3, 1, 1, 1] + 4
    x_ND[:, 3] += 2 * x_ND[:, 0] + x_ND[:, 1]
    x_ND[:, 6] = x_ND[:, 4] + 0.05 * random.normal(size=3000)
    x_ND[:, 7] = 3 * x_ND[:, 5] - 0.1 * random.normal(size=3000)
    x_ND[:, 8] = 0.7
    moments = Moments()
    moments.add(x_ND, x_ND[:, :1])
    columns, dropped_columns = [*range(8)], [8]
    while len(columns) > 1:
        scores = [
            LinearRegression().fit(x_ND[:, rest], x_ND[:, d]).score(x_ND[:, rest], x_ND[:, d])
            for d in columns
            for rest in [[other for other in columns if other != d]]
        ]
        dropped_columns.append(columns.pop(int(np.argmax(scores))))
    assert {*dropped_columns[1:3]} & {4, 6} and {*dropped_columns[1:3]} & {5, 7}
    for size in range(2, 9):  # of two that are left, each tells the other as well
        scale = moments.scale(size)
        assert {*range(9)} - {*scale.feature_indices.tolist()} == {*dropped_columns[: 9 - size]}
        features = scale(torch.from_numpy(x_ND)).numpy()
        np.testing.assert_allclose(features.std(axis=0), FEATURE_LENGTH / size**0.5, rtol=1e-5)
        np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-5)
    whole = moments.scale(10**6)(torch.from_numpy(x_ND))
    assert whole.shape == (3000, 9) and not whole[:, 8].any()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([(0, 7)], [(0, 2), (2, 4), (4, 7)]),  # all of a short one
        ([], []),
        ([(0, 100)], [(0, 3), (25, 28), (50, 53), (75, 78)]),
        ([(10, 30), (50, 130)], [(10, 13), (55, 58), (80, 83), (105, 108)]),  # 100 sentences without the gap
        ([(0, 26), (40, 114)], [(0, 3), (25, 26), (64, 67), (89, 92)]),  # the end of a part ends a block
    ],
)
def test_blocks_are_spread_evenly_over_a_text(
    text: list[SentenceRange], expected: list[SentenceRange]
) -> None:
    assert sample_ranges(text, sentences=12, block=3) == expected


@pytest.fixture
def read(tmp_path: Path) -> MultiViewEncoder:
    """Two views of 4 numbers, read out as 3, λ of 0.2 in the folder."""
    encoder = MultiViewEncoder.untrained("seq,dep", dim=4, word_dim=6, device="cpu")
    encoder.network.readout = Readout(torch.randn(3, 8), torch.randn(3), "chance")
    encoder.structure = 0.2
    encoder.save(tmp_path / "m")
    return MultiViewEncoder.load(tmp_path / "m", "cpu")


def test_encode_gives_meaning_and_features(read: MultiViewEncoder, caplog) -> None:
    warn_once.cache_clear()
    features = read.features(TEXTS)
    fitted = read.readout
    assert features.shape == (4, 8) and fitted is not None and fitted.origin == "chance"
    meaning = read.with_options(structure=0).encode(TEXTS)
    product = features @ fitted.weight.numpy().T + fitted.bias.numpy()
    np.testing.assert_allclose(meaning, product / np.linalg.norm(product, axis=1, keepdims=True), atol=1e-6)
    whole = read.encode(TEXTS)
    assert whole.shape[1] == read.get_sentence_embedding_dimension() == 3 + WIDTH
    np.testing.assert_array_equal(whole, read.with_options(structure=0.2).encode(TEXTS))
    np.testing.assert_allclose(whole[:, :3], 0.8**0.5 * meaning, atol=1e-6)
    cut = read.with_options(structure=0).encode(TEXTS, truncate_dim=2)
    np.testing.assert_allclose(
        cut, product[:, :2] / np.linalg.norm(product[:, :2], axis=1)[:, None], atol=1e-6
    )
    assert read.encode(TEXTS, truncate_dim=2).shape[1] == 2 + WIDTH
    assert "truncate_dim=2 cuts the meaning; 1,024 numbers of structure stay" in caplog.text
    with pytest.raises(UserError, match="truncate_dim=-1: must be a whole number from 1"):
        read.encode(TEXTS, truncate_dim=-1)
    np.testing.assert_array_equal(read.view_vectors(TEXTS, ["dep"]), features[:, 4:])
    assert "= 8 dimensions, read out as 3; structure 0.2" in repr(read)
    for gone in ({"readout": "meaning"}, {"views": ["dep"]}, {"structure": 0.1}):
        with pytest.raises(UserError, match="has no meaning for this model"):
            read.encode(TEXTS, **gone)


def test_options_make_another_encoder_over_the_same_weights(read: MultiViewEncoder) -> None:
    other = read.with_options(structure=0.5, structure_size=256)
    assert (read.structure, other.structure, other.structure_size) == (0.2, 0.5, 256)
    assert other.network is read.network and other.encode(TEXTS).shape[1] == 3 + 256
    other.to("cpu")
    assert other.device == read.device
    with pytest.raises(UserError, match="structure=2"):
        read.with_options(structure=2)


@pytest.mark.parametrize("compact", [False, True])
def test_a_folder_takes_another(compact: bool, tmp_path: Path) -> None:
    save_compact(tmp_path / "m") if compact else encoder_of().save(tmp_path / "m")
    before = MultiViewEncoder.load(tmp_path / "m")
    width = before.network.dim
    fitted, mean = Readout(torch.randn(5, width), torch.randn(5), "chance"), torch.randn(width)
    scale = Scale(mean, 1.0 + torch.arange(width), "chance")
    scale.deviation[2] = torch.inf
    for target in ("new", "m"):
        store_readout(tmp_path / "m", tmp_path / target, fitted, scale, "# A card\n", 0.1)
        assert (tmp_path / target / "README.md").read_text() == "# A card\n"
        after = MultiViewEncoder.load(tmp_path / target)
        assert after.structure == 0.1 and after.readout is not None
        expected = (before.encode(TEXTS) - mean.numpy()) / np.arange(1, width + 1)
        expected = FEATURE_LENGTH / (width - 1) ** 0.5 * np.delete(expected, 2, axis=1)
        np.testing.assert_allclose(after.features(TEXTS), expected, atol=1e-6)
        cut = after.features(TEXTS, truncate_dim=3)
        np.testing.assert_allclose(cut, expected[:, :3], atol=1e-6)
        np.testing.assert_array_equal(after.view_vectors(TEXTS), before.encode(TEXTS))
        error = (after.readout.weight - fitted.weight).abs().amax(dim=1) / fitted.weight.abs().amax(dim=1)
        assert float(error.max()) < (0.006 if compact else 1e-9)
        weights = load_file(tmp_path / target / "model.safetensors")
        assert weights["readout.weight"].dtype == (torch.int8 if compact else torch.float32)
    record = read_record(tmp_path / "m" / "config.json")
    reseal(tmp_path / "m", readout={**record["readout"], "dim": 6})
    with pytest.raises(
        UserError,
        match=r"config\.json: asks for readout.bias \[6\] of torch.float32, model.safetensors has \[5\]",
    ):
        MultiViewEncoder.load(tmp_path / "m")


@pytest.mark.usefixtures("both_devices")
def test_the_command_fits_and_reports(toy_trees: Path, tmp_path: Path, capsys, refusal) -> None:
    texts, words = toy_corpus()[0], toy_words()
    counts = np.array([[text.count(word) for word in words] for text in texts], np.float32)
    np.save(tmp_path / "t.npy", counts)
    encoder_of(listed=("<unk>", *words)).save(tmp_path / "m")
    command = [str(tmp_path / "m"), str(toy_trees), "--teacher", str(tmp_path / "t.npy"), "--dim", "8"]
    assert readout.cli([*command, "--output", str(tmp_path / "new"), "--structure", "0.1"]) == 0
    out = capsys.readouterr().out
    assert out.count("strength   ") == len(readout.STRENGTHS), out
    before, after = (float(rank) for rank in re.findall(r"rank correlation (\S+)", out))
    assert after > before, out
    assert MultiViewEncoder.load(tmp_path / "new").get_sentence_embedding_dimension() == 8 + WIDTH
    alone = [str(tmp_path / "new"), str(toy_trees), "--dim", "4", "--output", str(tmp_path / "alone")]
    assert readout.cli(alone) == 0
    recalls = re.findall(r"recall@1 of neighbours (\S+) \((\d+) numbers\)", capsys.readouterr().out)
    assert [numbers for _, numbers in recalls] == ["8", "4"] and float(recalls[1][0]) > 0
    card = (tmp_path / "alone/README.md").read_text(encoding="utf-8")
    assert (
        card.count("## Read-out") == 1 and shlex.join(["python", "-m", "multiview.readout", *alone]) in card
    )
    assert f"{recalls[0][0]} before, {recalls[1][0]} with" in card
    assert f"t.npy has {len(words)} numbers" in refusal(readout.cli, *command[:-1], 999)
    assert "--output: needed for builtin" in refusal(readout.cli, "builtin", *command[1:])


def test_a_model_is_replaced_where_that_gains(toy_trees: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    encoder_of(listed=("<unk>", *toy_words())).save(tmp_path / "m")
    before = {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    command = [str(tmp_path / "m"), str(toy_trees), "--dim", "4", "--strength", "0.1"]
    with monkeypatch.context() as patch:
        patch.setattr(Target, "score", lambda *_: 0.5)
        assert readout.cli(command) == 0
        out = capsys.readouterr().out
        assert f"no gain    on the documents that were held out; {tmp_path / 'm'} stays as it was" in out
        assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before
        assert readout.cli([*command, "--output", str(tmp_path / "new")]) == 0
        out = capsys.readouterr().out
        assert out.endswith("no gain    on the documents that were held out\n") and "model      " in out
    assert MultiViewEncoder.load(tmp_path / "new").readout is not None
    figures = iter((0.25, 0.5, 0.75, 0.75))
    monkeypatch.setattr(Target, "score", lambda *_: next(figures))
    assert readout.cli(command) == 0
    out = capsys.readouterr().out
    assert "no gain" not in out and MultiViewEncoder.load(tmp_path / "m").readout is not None
    # Sentences are counted, not pairs of neighbours; each of these has one.
    fitted_count, *held_out_counts = map(int, re.findall(r"\d+", out.splitlines()[0]))
    assert fitted_count + sum(held_out_counts) == len(toy_corpus()[0])
    assert f"neighbours over {fitted_count} sentences of toy" in out


def test_the_card_is_of_the_model_that_is_written(tmp_path: Path) -> None:
    """builtin's scores are not its scores; of another model what its card said stays."""
    facts = ["neighbours over 9 sentences", "recall"]
    card = readout_card(model_folder("builtin"), tmp_path / "adapted", "python -m multiview.readout …", facts)
    assert card.startswith("# adapted\n") and "CC BY-SA 4.0" in card and card.endswith("- recall\n")
    assert "STS12" not in card
    (tmp_path / "README.md").write_text("# old\n\nTrained on cats.\n\n## Read-out\n\nearlier\n")
    card = readout_card(tmp_path, tmp_path / "new", "python -m multiview.readout …", facts)
    assert card.startswith("# new\n\nTrained on cats.\n\n## Read-out\n\n    python") and "earlier" not in card


def test_a_text_without_neighbours(tmp_path: Path, refusal) -> None:
    encoder_of().save(tmp_path / "m")
    texts = [("the", "cat", f"w{n}") for n in range(60)]
    write_cache(tmp_path / "single", texts, documents=range(60), shard=64)
    line = refusal(readout.cli, tmp_path / "m", tmp_path / "single", "--dim", 4)
    assert "single: no two sentences of a document to fit" in line
