"""Weights there and back: supar's own ``predict`` gives our parses, converted checkpoints its."""

import pytest
import torch
from supar import BiaffineDependencyParser

from corpora.support.errors import UserError
from parsing.convert import cli as convert
from parsing.libraries.supar import checkpoint_path, from_state
from parsing.networks.dependency import BiaffineParser, DependencyModel
from parsing.text_parser import load_parser
from tests.oracles.supar import stock_predict, to_supar
from tests.parsing.examples import ODD, SENTENCES, random_arcs

# supar pads with an index that torch is about to read differently.
pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning")
TOKENS = [list(s.tokens) for s in SENTENCES] + ODD


def saved(parser):
    """What ``parser.save`` writes."""
    state = parser.model.state_dict()
    pretrained = state.pop("pretrained.weight", None)
    parts = {"args": parser.model.args, "transform": parser.transform}
    return {"name": parser.NAME, "state_dict": state, "pretrained": pretrained, **parts}


def ours(model, sentences):
    parser = BiaffineParser(model, {}) if isinstance(model, DependencyModel) else model
    parses = parser.parse(sentences)
    names = [[parser.relations[r] for r in p.relations] for p in parses]
    return [p.heads.tolist() for p in parses], names


@pytest.mark.parametrize("sizes", [{"layers": 1}, {"layers": 3}, {"end_boundary": True}], ids=str)
def test_stock_predict_on_our_weights_gives_our_parses(sizes):
    model = random_arcs(**sizes)
    assert stock_predict(to_supar(model), TOKENS) == ours(model, TOKENS)


def conllu(path):
    lines = []
    for s in SENTENCES * 3:
        for i, (word, head, relation) in enumerate(zip(s.tokens, s.heads, s.relations, strict=True), 1):
            lines.append(f"{i}\t{word}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_")
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


def supar_parser(folder, *, vectors=False, **sizes):
    """A parser built by supar itself, with random weights (its own initial scores are all equal)."""
    options = {"encoder": "lstm", "feat": ["char"], "embed": None, "unk": "unk"}
    if vectors:
        words = ["the", "cat", "mat", "zebra", "unk"]
        options["embed"] = str(folder / "vectors.txt")
        (folder / "vectors.txt").write_text(
            "".join(f"{w} {' '.join(str(i * j % 3 - 1.0) for j in range(8))}\n" for i, w in enumerate(words))
        )
    sizes = {
        "n_embed": 8, "n_pretrained": 8, "n_char_embed": 5, "n_char_hidden": 6, "n_feat_embed": 6,
        "n_lstm_hidden": 7, "n_lstm_layers": 2, "n_arc_mlp": 9, "n_rel_mlp": 4,
    } | sizes  # fmt: skip
    train = str(conllu(folder / "train.conllu"))
    torch.manual_seed(3)
    parser = BiaffineDependencyParser.build(
        str(folder / "parser"), min_freq=2, fix_len=9, train=train, build=True, **options, **sizes
    )
    with torch.no_grad():
        for parameter in parser.model.parameters():
            if parameter.requires_grad:
                parameter.normal_(0, 0.5)
    parser.model.eval()
    return parser


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"vectors": True},
        {"vectors": True, "n_embed": 5, "n_pretrained": 4},
        {"n_char_hidden": 8, "n_feat_embed": 5},
        {"scale": 0.5},
    ],
    ids=["plain", "summed vectors", "concatenated vectors", "projected characters", "scaled"],
)
def test_supars_own_models_parse_alike_once_converted(tmp_path, capsys, options):
    parser = supar_parser(tmp_path, **options)
    sentences = [*TOKENS, ["The", "zebra", "sat", "."]]
    parser.save(str(tmp_path / "theirs.pt"))
    arguments = ["dep", str(tmp_path / "theirs.pt"), str(tmp_path / "ours")]
    assert convert(arguments) == 2 and not (tmp_path / "ours").exists()
    assert "add --trust-pickle" in capsys.readouterr().err
    assert convert([*arguments, "--trust-pickle"]) == 0
    converted = load_parser("dep", str(tmp_path / "ours"))
    assert ours(converted, sentences) == stock_predict(parser, sentences)


def test_models_that_cannot_be_run_are_refused():
    with pytest.raises(UserError, match=r"^m\.pt: a 'vi-dependency' model"):
        from_state({"name": "vi-dependency"}, where="m.pt")
    state = saved(to_supar(random_arcs()))
    state["args"].encoder = "bert"
    with pytest.raises(UserError, match=r"encoder 'bert', features char; only 'lstm' with char converts"):
        from_state(state, where="m.pt")
    with pytest.raises(UserError, match="biaffine-dep-en"):
        checkpoint_path("no-such-model")
