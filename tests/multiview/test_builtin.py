"""``builtin`` wherever a model is named, and what the package holds."""

from pathlib import Path

import numpy as np
import pytest

from multiview import encode
from multiview.folder.files import load_members, model_folder
from multiview.model import MultiViewEncoder
from multiview.names.sources import find_source
from multiview.sklearn import MultiViewTransformer
from runtime.errors import UserError
from tests.fixtures.builtin import LINES


def test_it_is_the_folder(builtin: Path, corpus: Path, tmp_path: Path, capsys) -> None:
    encoder = MultiViewEncoder.load("builtin")
    expected = MultiViewEncoder.load(builtin).encode(LINES)
    np.testing.assert_array_equal(encoder.encode(LINES), expected)
    assert encoder.name == "builtin" and encoder.folder == builtin
    assert model_folder("builtin") == model_folder(Path("builtin")) == builtin
    assert model_folder("./x/builtin") == Path("x/builtin")
    np.testing.assert_array_equal(MultiViewTransformer("builtin").fit_transform(LINES), expected)
    assert "seq 8 + seq 8 + seq 8 + seq 8 = 32 dimensions" in repr(encoder)
    for name in ("bultin", "built-in", "Builtin"):
        assert encode.cli([name, str(corpus)]) == 2
        assert f"model '{name}': no such folder; did you mean builtin?" in capsys.readouterr().err
        with pytest.raises(UserError, match="did you mean builtin"):
            find_source(name)


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
