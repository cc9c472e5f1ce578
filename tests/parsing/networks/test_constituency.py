"""CKY and the margin loss against enumeration and benepar's plain ones; benepar's own models."""

import os

import numpy as np
import pytest
import torch
from benepar.decode_chart import ChartDecoder, SpanClassificationMarginLoss, get_labeled_spans
from benepar.integrations.nltk_plugin import InputSentence

from parsing.convert import cli as convert
from parsing.libraries.benepar import BeneparParser, load_benepar, patched_libraries
from parsing.networks.cky import best_labels, decode_batch, span_offsets
from parsing.networks.constituency import LabelHead, SpanParser, margin_loss
from parsing.text_parser import load_parser
from runtime.errors import UserError
from tests.fixtures.transformers import save_bert, save_roberta, save_t5
from tests.oracles.benepar import stock_parse, to_benepar
from tests.parsing.examples import LABELS, TAGS, as_lists, benepar_model, random_spans, save_as_benepar_does
from tests.parsing.examples import WORDS as SENTENCES
from tests.parsing.pipeline.toy_parsers import ToyConstituencyParser

# torch-struct's, under today's torch.
pytestmark = pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning")


@pytest.mark.parametrize("ties", [True, False])
def test_equals_benepars_decoder(ties) -> None:
    rng = np.random.default_rng(7)
    for _ in range(30):
        lengths = rng.integers(1, 16, size=rng.integers(1, 9))
        shape = (len(lengths), lengths.max(), lengths.max(), rng.integers(2, 6))
        # Small integers make ties everywhere: between labels, with the null label, between splits.
        charts = (rng.integers(-2, 3, shape) if ties else rng.normal(size=shape)).astype(np.float32)
        theirs = ChartDecoder(
            {f"L{i}" if i else "": i for i in range(shape[-1])}, force_root_constituent=True
        )
        oracle = theirs.charts_from_pytorch_scores_batched(
            torch.from_numpy(charts), torch.from_numpy(lengths)
        )
        # Packed, and without the null label, which benepar subtracts.
        rows = [charts[b, i, j] for b, n in enumerate(lengths) for i in range(n) for j in range(i, n)]
        scores = np.ascontiguousarray(np.array(rows)[:, 1:] - np.array(rows)[:, :1])
        labelled, offsets = np.zeros(len(rows), np.bool_), span_offsets(lengths)
        labelled[offsets[:-1] + lengths - 1] = True
        best, label = np.empty(len(rows), np.float32), np.empty(len(rows), np.int32)
        best_labels(scores, np.zeros(len(rows), np.int32), 0.0, labelled, best, label)
        ours = [np.stack(columns, 1) for columns in zip(*decode_batch(best, label, lengths), strict=True)]
        for chart, spans in zip(oracle, ours, strict=True):
            expected = theirs.compressed_output_from_chart(chart)
            has_label = np.asarray(expected.labels) != 0
            has_label[0] = True
            expected_spans = np.stack([expected.starts, expected.ends, expected.labels], 1)[has_label]
            np.testing.assert_array_equal(spans, expected_spans)


def plain_loss(head, posts, lengths, parses):
    """benepar's: every span of a padded chart, CKY in the graph."""
    padded = torch.nn.utils.rnn.pad_sequence(posts.split([n + 1 for n in lengths]), batch_first=True)
    gold = torch.full((len(lengths), max(lengths), max(lengths)), -100)
    for b, (n, parse) in enumerate(zip(lengths, parses, strict=True)):
        gold[b, :n, :n] = torch.tril(torch.full((n, n), -100), -1)
        gold[b, parse.starts, parse.ends - 1] = torch.from_numpy(parse.labels).long()
    scores = head((padded[:, None] - padded[:, :, None])[:, :-1, 1:])
    scores = torch.cat([scores.new_zeros((*scores.shape[:-1], 1)), scores], -1)
    return SpanClassificationMarginLoss(force_root_constituent=True, reduction="none")(scores, gold)


@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_equal_the_plain_formulation(seed) -> None:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    head = LabelHead(12, 16, 5)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    lengths = rng.integers(1, 12, size=6).tolist()
    words = [["w" * k for k in rng.integers(1, 9, n)] for n in lengths]
    parses = ToyConstituencyParser().parse(words)
    posts = torch.randn(sum(lengths) + 6, 12, requires_grad=True)
    weights = torch.rand(6)
    results = []
    for loss_of in (margin_loss, plain_loss):
        loss = loss_of(head, posts, np.array(lengths), parses)
        gradients = torch.autograd.grad((loss * weights).sum(), [posts, *head.parameters()])
        results.append((loss.detach(), gradients))
    (ours, our_gradients), (plain, plain_gradients) = results
    assert ours.sum() > 0
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)
    for a, b in zip(our_gradients, plain_gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_spans_are_scored_alike_on_a_device(monkeypatch) -> None:
    torch.manual_seed(0)
    head, lengths = LabelHead(12, 16, 5), np.array([1, 4, 9, 2])
    projected = torch.randn(int((lengths + 1).sum()), 16)
    spans = int((lengths * (lengths + 1) // 2).sum())
    gold_labels = np.random.default_rng(0).integers(0, 4, spans).astype(np.int32)
    monkeypatch.setattr("parsing.networks.constituency.DEVICE_CHUNK_SPANS", 7)
    for gold_label in (None, gold_labels):
        best, label = head.best_labels(projected, lengths, gold_label)()
        with monkeypatch.context() as on_device:
            on_device.setattr(LabelHead, "_best_labels_on_cpu", LabelHead._best_labels_on_gpu)
            device_best, device_label = head.best_labels(projected, lengths, gold_label)()
        np.testing.assert_array_equal(device_label, label)
        np.testing.assert_allclose(device_best, best, rtol=1e-4, atol=1e-4)
    assert (label == 0).any()


@pytest.mark.parametrize("seed", range(3))
def test_our_model_parses_as_stock_benepar_does(seed) -> None:
    model = random_spans(seed)
    parser = SpanParser(model)
    parser.positions = 40
    ours = parser.parse(SENTENCES * 3)
    assert as_lists(ours) == as_lists(stock_parse(to_benepar(model), SENTENCES * 3))
    assert len({tuple(p.labels.tolist()) for p in ours}) > 2  # not all the same tree
    alone = [SpanParser(model).parse([tokens])[0] for tokens in SENTENCES]
    assert as_lists(alone * 3) == as_lists(ours)


def test_a_parse_is_benepars_tree() -> None:
    """Word for word against the tree that benepar itself builds."""
    model = benepar_model(1)
    for tokens, parse in zip(SENTENCES, BeneparParser(model, {}).parse(SENTENCES), strict=True):
        words = InputSentence(words=tokens, space_after=[True] * len(tokens), escaped_words=tokens)
        (tree,) = model.parse([words])
        assert [tag for _, tag in tree.pos()] == [TAGS[i] for i in parse.tags]
        labelled = zip(parse.starts.tolist(), parse.ends.tolist(), parse.labels.tolist(), strict=True)
        spans = {(first, end, LABELS[label]) for first, end, label in labelled} - {(0, len(tokens), "")}
        assert spans == {(first, end + 1, label) for first, end, label in get_labeled_spans(tree)}


@pytest.mark.parametrize("changes", [{}, {"predict_tags": False}, {"force_root_constituent": False}])
def test_benepars_character_model(tmp_path, changes) -> None:
    path = save_as_benepar_does(benepar_model(1, **changes), tmp_path / "tiny.pt")
    parser = load_benepar(str(path))
    assert parser.labels == LABELS
    assert parser.tags == (TAGS if changes.get("predict_tags", True) else ("UNK",))
    stock = as_lists(stock_parse(benepar_model(1, **changes), SENTENCES))
    assert as_lists(load_parser("const", str(path)).parse(SENTENCES)) == stock
    assert as_lists(parser.parse(SENTENCES[::-1])) == stock[::-1]
    with pytest.raises(ValueError, match="the model takes 30"):
        parser.parse([["a"] * 31])


@pytest.fixture(scope="module")
def backbones(tmp_path_factory):
    """Tiny random transformers by name, as pretrained models lie on disk."""
    bert, roberta, t5 = (tmp_path_factory.mktemp(name) for name in ("bert", "roberta", "t5"))
    return {"bert": save_bert(bert, positions=40), "roberta": save_roberta(roberta), "t5": save_t5(t5)}


def pretrained(folder, **changes):
    """benepar's model over a transformer."""
    kind = {"use_chars_lstm": False, "use_pretrained": True, "pretrained_model": str(folder)}
    with patched_libraries():
        return benepar_model(2, **kind, **changes)


@pytest.mark.parametrize("use_encoder", [True, False])
@pytest.mark.parametrize("name", ["bert", "roberta", "t5"])
def test_a_pretrained_transformer(backbones, tmp_path, name, use_encoder) -> None:
    model = pretrained(backbones[name], use_encoder=use_encoder)
    parser = load_benepar(str(save_as_benepar_does(model, tmp_path / "tiny.pt")))
    sentences = [tokens for tokens in SENTENCES if name != "t5" or tokens[0].isascii()]
    stock = stock_parse(model, sentences)
    assert as_lists(parser.parse(sentences)) == as_lists(stock)
    assert len({tuple(p.labels.tolist()) for p in stock}) > 1


def test_a_transformer_exported_for_release(backbones, tmp_path) -> None:
    """benepar's release format: a folder with the tokenizer, the configuration and the weights."""
    model = pretrained(backbones["bert"])
    folder = tmp_path / "benepar_tiny"
    model.pretrained_model.config.benepar = model.config
    model.pretrained_model.config.save_pretrained(folder)
    model.retokenizer.tokenizer.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "benepar_model.bin")
    parses = load_benepar(str(folder)).parse(SENTENCES)
    assert as_lists(parses) == as_lists(stock_parse(model, SENTENCES))


def test_what_makes_stock_benepar_crash(backbones) -> None:
    """Words of nothing, of spaces, of characters no tokenizer keeps, and too many of them."""
    parser = BeneparParser(pretrained(backbones["bert"]), {})
    odd = [["a", " ", "b"], ["", "a"], ["\u200b", "\u00a0"], ["a", "\ufe0f"]]
    mended = [["a", "-", "b"], ["-", "a"], ["-", "-"], ["a", "-"]]
    assert as_lists(parser.parse(odd)) == as_lists(parser.parse(mended))


def test_what_is_no_model_of_benepars(tmp_path) -> None:
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "run"), "w"))

    torch.save({"config": Evil(), "state_dict": {}}, tmp_path / "evil.pt")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "benepar_model.bin")
    for spec, message in (
        ("benepar_none", r"benepar\.download"),
        (str(tmp_path / "evil.pt"), "cannot read"),
        (str(tmp_path / "pipe"), "a pipe or a device"),
        (str(tmp_path / "folder"), "a pipe or a device"),
    ):
        with pytest.raises(UserError, match=message):
            load_benepar(spec)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("content", [None, {"name": "crf-constituency", "state_dict": {}}])
def test_other_files_are_refused(tmp_path, refusal, content):
    path = tmp_path / "file.pt"
    torch.save(content, path)
    if content is None:
        path.write_bytes(b"\x80\x65 not pickle's own error")
    assert refusal(convert, path, tmp_path / "out", "--trust-pickle") and not (tmp_path / "out").exists()
