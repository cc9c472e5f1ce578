"""The biaffine model against its equations; heads against all trees; supar's own models and decoder."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from supar import BiaffineDependencyParser
from supar.structs import MatrixTree
from supar.utils.transform import CoNLL

from corpora.text import Document
from corpora.treebanks import write_conllu
from parsing.convert import cli as convert
from parsing.libraries.supar import from_state
from parsing.networks.dependency import BiaffineParser, DependencyModel, decode_heads
from parsing.text_parser import load_parser
from runtime.errors import UserError
from tests.oracles.biaffine import slow_scores, states
from tests.oracles.supar import stock_predict, to_supar
from tests.parsing.examples import ODD, SENTENCES, random_arcs

# supar pads with an index that torch is about to read differently.
pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning")
TOKENS = [list(s.tokens) for s in SENTENCES] + ODD


@pytest.mark.parametrize("end_boundary", [False, True])
@torch.no_grad()
def test_scores_equal_the_equations(end_boundary):
    model = random_arcs(end_boundary=end_boundary)
    x, lengths = states(model, TOKENS)
    mask = torch.arange(x.shape[1]) < lengths[:, None] - int(end_boundary)
    scores = model.arc_scores(x, mask)
    for sentence, tokens in enumerate(TOKENS):
        n = len(tokens)
        arcs, relations = slow_scores(model, tokens)
        torch.testing.assert_close(scores[sentence, : n + 1, : n + 1], arcs, rtol=1e-4, atol=1e-4)
        assert (scores[sentence, :, n + 1 :] == -torch.inf).all()
        heads = torch.tensor([(3 * i) % (n + 1) for i in range(n)])
        words = torch.arange(1, n + 1)
        relation_scores = model.relation_scores(x, (torch.full_like(heads, sentence), words), heads)
        torch.testing.assert_close(relation_scores, relations[words, heads], rtol=1e-4, atol=1e-4)


def supar_heads(scores, lengths):
    """supar's decode: argmax where it is a tree, MatrixTree's argmax elsewhere."""
    heads = scores.argmax(-1)
    bad = [not CoNLL.istree(row[1 : n + 1]) for n, row in zip(lengths, heads.tolist(), strict=True)]
    if any(bad):
        heads[bad] = MatrixTree(scores[bad], torch.tensor(lengths)[bad]).argmax
    return [row[1 : n + 1] for n, row in zip(lengths, heads.tolist(), strict=True)]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 30), st.sampled_from([-4.0, 0.0, 4.0]), st.booleans())
def test_heads_equal_supars(seed, width, root_bias, ties):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, width + 1, (9,), generator=generator).tolist()
    scores = torch.randn(9, width + 1, width + 1, generator=generator)
    scores = scores.mul(2).round() if ties else scores
    scores[:, :, 0] += root_bias
    scores.masked_fill_(torch.arange(width + 1) > torch.tensor(lengths)[:, None, None], -1e32)
    heads = np.split(decode_heads(scores.numpy(), np.array(lengths)), np.cumsum(lengths)[:-1])
    assert [one.tolist() for one in heads] == supar_heads(scores, lengths)


def ours(model, sentences):
    parser = BiaffineParser(model) if isinstance(model, DependencyModel) else model
    parses = parser.parse(sentences)
    names = [[parser.relations[r] for r in p.relations] for p in parses]
    return [p.heads.tolist() for p in parses], names


@pytest.mark.parametrize("sizes", [{"layers": 1}, {"layers": 3}, {"end_boundary": True}], ids=str)
def test_stock_predict_on_our_weights_gives_our_parses(sizes):
    model = random_arcs(**sizes)
    assert stock_predict(to_supar(model), TOKENS) == ours(model, TOKENS)


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
    write_conllu(folder / "train.conllu", [Document("all", tuple(SENTENCES * 3))])
    train = str(folder / "train.conllu")
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
        {"vectors": True},
        {"vectors": True, "n_embed": 5, "n_pretrained": 4},
        {"n_char_hidden": 8, "n_feat_embed": 5, "scale": 0.5},
    ],
    ids=["summed vectors", "concatenated vectors", "projected characters, scaled"],
)
def test_supars_own_models_parse_alike_once_converted(tmp_path, refusal, options):
    parser = supar_parser(tmp_path, **options)
    sentences = [*TOKENS, ["The", "zebra", "sat", "."]]
    parser.save(str(tmp_path / "theirs.pt"))
    arguments = [str(tmp_path / "theirs.pt"), str(tmp_path / "ours")]
    assert "add --trust-pickle" in refusal(convert, *arguments) and not (tmp_path / "ours").exists()
    assert convert([*arguments, "--trust-pickle"]) == 0
    converted = load_parser("dep", str(tmp_path / "ours"))
    assert ours(converted, sentences) == stock_predict(parser, sentences)


def test_a_model_that_cannot_be_run_is_refused():
    args = SimpleNamespace(encoder="bert", feat=["char"])
    state = {"name": BiaffineDependencyParser.NAME, "args": args, "state_dict": {}}
    with pytest.raises(UserError, match=r"encoder 'bert', features char; only 'lstm' with char converts"):
        from_state(state, where="m.pt")
