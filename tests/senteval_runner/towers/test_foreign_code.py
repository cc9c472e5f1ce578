"""No loader runs a model folder's own code, and none asks whether it may."""

import builtins
import json
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from parsing.libraries.benepar import load_benepar
from runtime.errors import UserError
from senteval_runner.evaluation_trees import open_model
from senteval_runner.towers.backbones import open_backbone
from senteval_runner.towers.transformer import load_tower
from tests.fixtures.transformers import build

pytest.importorskip("sentence_transformers")

CODE = """
from pathlib import Path
Path({mark!r}).touch()
from transformers import BertConfig, BertModel, PretrainedConfig
class EvilConfig(PretrainedConfig):
    model_type = {kind!r}
class EvilModel(BertModel):
    config_class = EvilConfig
"""
LOADERS = {
    "layers": lambda folder: open_backbone(folder).encode(["a cat"]),
    "tower": load_tower,
    "whole tower": partial(load_tower, pooling=None),
    "benepar": load_benepar,
    "senteval_runner.run": lambda folder: open_model(folder).encode(["a cat"]),
}
ENCODERS = [name for name in LOADERS if name != "benepar"]


def change(file: Path, **values: object) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def hostile(folder: Path, kind: str) -> Path:
    """A BERT whose folder asks for its own classes, of a known or an unknown kind; the mark of its code."""
    build(folder, "bert")
    mark = folder.parent / "executed"
    (folder / "evil.py").write_text(CODE.format(mark=str(mark), kind=kind))
    names = {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"}
    change(folder / "config.json", auto_map=names, model_type=kind)
    change(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.EvilTokenizer"] * 2})
    return mark


@pytest.mark.parametrize("kind", ["bert", "evil"])
@pytest.mark.parametrize("name", LOADERS)
def test_a_folders_code_is_never_run(name: str, kind: str, tmp_path: Path, monkeypatch) -> None:
    mark = hostile(tmp_path / "model", kind)
    answer = Mock(return_value="y")
    monkeypatch.setattr(builtins, "input", answer)
    try:
        LOADERS[name](str(tmp_path / "model"))
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert kind == "bert", "the library's own class took over"
    assert not mark.exists() and not answer.called


def test_a_modules_file_cannot_name_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = hostile(tmp_path / "model", "evil")
    module = {"idx": 0, "name": "0", "path": "", "type": "evil.EvilModel"}
    (tmp_path / "model" / "modules.json").write_text(json.dumps([module]))
    monkeypatch.syspath_prepend(tmp_path / "model")  # as when a command runs inside the folder
    for name in ENCODERS:
        with pytest.raises(UserError):
            LOADERS[name](str(tmp_path / "model"))
    assert not mark.exists()


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("damage", ["weights", "config"])
def test_a_broken_folder_is_one_line(name: str, damage: str, tmp_path: Path) -> None:
    folder = build(tmp_path / "model", "bert")
    if damage == "weights":  # a pickle's first bytes: not safetensors
        (folder / "model.safetensors").write_bytes(b"\x80\x04\x95" + bytes(40))
    else:
        change(folder / "config.json", hidden_size=[8])
    with pytest.raises(UserError) as error:
        LOADERS[name](str(folder))
    assert "\n" not in str(error.value) and str(folder) in str(error.value)
