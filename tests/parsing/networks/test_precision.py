"""Reduced precision: near fp32, said in identities, kept apart in caches."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from parsing.models import load_constituency_parser, load_dependency_parser

from corpora.support.errors import UserError
from multiview.folder.reading import Reader
from parsing.libraries.benepar import BeneparParser
from parsing.run import ParseConfig, main
from parsing.score import cli as score
from parsing.training.scores import read_dependencies, read_treebank
from parsing.trees.agreement import constituency_agreement, dependency_agreement
from parsing.trees.parsers import ConstituencyParse, DependencyParse
from tests.parsing.constituency.examples import benepar_model
from tests.parsing.subcommand import run

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning"),
]
EASY = [["The", "old", "dog", "chased", "a", "cat", "."], ["It", "rains", "."]]
LOADERS = {"dep": load_dependency_parser, "const": load_constituency_parser}


@pytest.mark.parametrize("kind", ["dep", "const"])
def test_the_builtin_parsers_in_bf16(kind: str) -> None:
    full, reduced = LOADERS[kind]("builtin"), LOADERS[kind]("builtin", "bf16")
    assert reduced.identity == {**full.identity, "arithmetic": "bf16"} and "arithmetic" not in full.identity
    layers = {p.dtype for p in reduced.model.encoder.layers.parameters()}
    assert layers == {torch.bfloat16}
    agreement = {"dep": dependency_agreement, "const": constituency_agreement}[kind]
    assert set(agreement(reduced.parse(EASY), full.parse(EASY)).values()) == {100.0}


@pytest.mark.data
@pytest.mark.parametrize("kind", ["dep", "const"])
def test_bf16_agrees_with_fp32_on_real_sentences(data_folder, kind: str) -> None:
    folder = data_folder / "treebank" / "gum"
    if kind == "dep":
        words = [list(s.tokens) for s in read_dependencies([folder / "dev.conllu"])[::6]]
    else:
        words = [list(tree.words) for tree in read_treebank([folder / "dev.ptb"])[::6]]
    agreement = {"dep": dependency_agreement, "const": constituency_agreement}[kind]
    found = agreement(LOADERS[kind]("builtin", "bf16").parse(words), LOADERS[kind]("builtin").parse(words))
    same_trees = found.pop("same_trees")
    # 97.7 % of constituency trees where the processor has AVX-512, 96.5 % where bf16 is emulated.
    assert min(found.values()) > 99.7 and same_trees > 96


def test_agreement_counts() -> None:
    one, other = (
        DependencyParse(np.array([2, 0]), np.array([1, 0])),
        DependencyParse(np.array([2, 0]), np.array([0, 0])),
    )
    far = DependencyParse(np.array([0, 1]), np.array([0, 0]))
    assert dependency_agreement([one, one], [one, other]) == {
        "same_heads": 100, "same_relations": 75, "same_trees": 50,
    }  # fmt: skip
    assert dependency_agreement([one], [far])["same_heads"] == 0
    tags = np.array([1, 2])
    flat = ConstituencyParse(tags, np.array([0]), np.array([2]), np.array([1]))
    deep = ConstituencyParse(tags, np.array([0, 0]), np.array([2, 1]), np.array([1, 3]))
    assert constituency_agreement([flat], [flat]) == {"same_spans": 100, "same_tags": 100, "same_trees": 100}
    found = constituency_agreement([flat, flat], [flat, deep])
    assert found == {"same_spans": 80, "same_tags": 100, "same_trees": 50}


def test_benepars_models_are_not_reduced() -> None:
    with pytest.raises(UserError, match="runs in fp32"):
        BeneparParser(benepar_model(1), {}).use_bfloat16()


def test_caches_of_two_precisions_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The dog sleeps .\nIt rains .\n")
    options = {"corpus": str(tmp_path / "a.txt"), "output": tmp_path / "c", "tokenize": "space", "workers": 1}
    main(ParseConfig(**options, const_model="none", precision="bf16"))
    manifest = json.loads((tmp_path / "c" / "manifest.json").read_text())
    assert manifest["identity"]["dependency"]["arithmetic"] == "bf16"
    with pytest.raises(UserError, match=r"dependency\.arithmetic: 'bf16' is now None"):
        main(ParseConfig(**options, const_model="none"))


def test_a_model_trained_on_reduced_trees_loads_that_parser() -> None:
    identity = load_dependency_parser("builtin", "bf16").identity
    reader = Reader([SimpleNamespace(corpus={}, parsers={"dep": identity})])
    assert reader.parser("dep").identity == identity


def test_score_reports_agreement(tmp_path: Path, capsys) -> None:
    (tmp_path / "t.ptb").write_text("(ROOT (S (NP (PRP It)) (VP (VBZ rains)) (. .)))\n")
    command = ["const", "builtin", str(tmp_path / "t.ptb"), "--precision", "bf16"]
    assert run(score, *command) == 0
    out = capsys.readouterr().out
    assert "against fp32: same spans 100.00 %, same tags 100.00 %" in out
    last = json.loads(out.splitlines()[-1])
    assert last["same_trees"] == 100 and last["arithmetic"] == "bf16" and last["precision"] > 0
