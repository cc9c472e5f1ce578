"""``builtin`` wherever a model is named, and its compact form: numbers one by one, damage in one line."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from multiview import encode
from multiview.folder.files import load_members, model_folder
from multiview.model import MultiViewEncoder
from multiview.names.sources import find_source
from multiview.sklearn import MultiViewTransformer
from multiview.words.compact import unpack
from runtime.errors import UserError
from tests.fixtures.builtin import LINES
from tests.multiview.test_model import reseal
from tests.multiview.test_weightless import save_compact


def test_it_is_the_folder(builtin: Path, corpus: Path, tmp_path: Path, capsys) -> None:
    encoder = MultiViewEncoder.load("builtin")
    expected = MultiViewEncoder.load(builtin).encode(LINES)
    np.testing.assert_array_equal(encoder.encode(LINES), expected)
    assert encoder.name == "builtin" and encoder.folder == builtin
    assert model_folder("builtin") == model_folder(Path("builtin")) == builtin
    assert model_folder("./x/builtin") == Path("x/builtin")
    np.testing.assert_array_equal(MultiViewTransformer("builtin").fit_transform(LINES), expected)
    assert encode.cli(["builtin", str(corpus), "--output", str(tmp_path / "v.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), expected[[0, 2]])  # no blank line
    assert "seq 8 + seq 8 + seq 8 + seq 8 = 32 dimensions" in repr(encoder)
    for name in ("bultin", "built-in", "Builtin"):
        assert encode.cli([name, str(corpus)]) == 2
        assert f"model '{name}': no such folder; did you mean builtin?" in capsys.readouterr().err
        with pytest.raises(UserError, match="did you mean builtin"):
            find_source(name)


def test_two_numbers_of_four_bits_are_in_a_byte() -> None:
    rows = np.array([[-7, 7, 0, 3], [1, -1, 5, -6]])
    pairs = torch.from_numpy((rows[:, ::2] + 8 + 16 * (rows[:, 1::2] + 8)).astype(np.uint8))
    scale = torch.tensor([0.1, 3.0]).bfloat16()
    found = unpack({"words.fixed": pairs, "words.fixed.scale": scale, "b": torch.ones(3).half()})
    vectors = found["words.fixed"]
    assert vectors.shape == rows.shape and found["b"].dtype == torch.float32
    np.testing.assert_array_equal(vectors[:], rows * scale.float().numpy()[:, None])
    np.testing.assert_array_equal(vectors[np.array([0])], vectors[:1])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A model of fixed words in 4 bits."""
    save_compact(tmp_path / "m")
    return tmp_path / "m"


SCALE = "words.fixed.scale"
FOUR = torch.ones(4, 3).to(torch.uint8)
DAMAGES: dict[str, dict[str, torch.Tensor | None]] = {
    r"cannot be loaded \('words\.fixed'\)": {"words.fixed": None},
    "without a scale per row": {SCALE: torch.ones(4).bfloat16()},
    "torch.int8 .* without a scale": {"words.fixed": torch.ones(5, 6).to(torch.int8)},
    "is no pairs of 4 bits": {"words.fixed": torch.ones(5, 6).half()},
    r"\(4, 6\) numbers of vectors for 5 words": {"words.fixed": FOUR, SCALE: torch.ones(4).bfloat16()},
}


@pytest.mark.parametrize("message", DAMAGES)
def test_damaged_folders_are_one_line(small: Path, message: str) -> None:
    path = small / "model.safetensors"
    assert len(load_members(small)) == 1
    stored = {**load_file(path), **DAMAGES[message]}
    save_file({name: value for name, value in stored.items() if value is not None}, path)
    for told in (r"model\.safetensors: damaged", message):
        with pytest.raises(UserError, match=told):
            MultiViewEncoder.load(small)
        reseal(small)


def test_the_builtin_encoder_of_this_tree() -> None:
    """What the wheel will hold: at most 20 MB, and it says where its data come from."""
    folder = model_folder("builtin")
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 20e6
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "CC BY-SA 3.0" in card and "public domain" in card and "Apache-2.0" in card
    (member,) = load_members(folder)
    assert member.network.views == ("dep", "const", "seq", "bag", "spelling")
    fitted, scale = member.network.readout, member.network.scale
    assert (
        fitted is not None and scale is not None and (fitted.dim, len(scale.feature_indices)) == (384, 2560)
    )
