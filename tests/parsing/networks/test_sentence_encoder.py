"""The BiLSTM against torch's own; padding, caches and dropout change nothing they should not."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing.networks.recurrence import Packing

from parsing.networks import recurrence
from parsing.networks.features import ParserVocabulary, TypeTable, make_batch
from parsing.networks.sentence_encoder import (
    BidirectionalLayer,
    EncoderConfig,
    SentenceEncoder,
    TypeVectors,
    reversal,
    reverse_within,
)

SENTENCES = [
    ["The", "cat", "sat", "on", "the", "extraordinarily-comfortable", "mat", "."],
    ["Cats", "sit"],
    ["x"],
    ["Why", "would", "anyone", "?", ""],
]
CONFIG = EncoderConfig(word_dim=5, character_dim=4, character_hidden=6, hidden=7, layers=2, end_boundary=True)


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    vocabulary = ParserVocabulary.build(SENTENCES, min_count=1)
    module = SentenceEncoder(len(vocabulary.words), len(vocabulary.characters), CONFIG).double().eval()
    return module, TypeTable(vocabulary)


def encode(encoder, sentences, vectors=None):
    module, table = encoder
    return module(make_batch(table, [table.rows(s) for s in sentences], end_boundary=True), vectors).detach()


def test_padding_changes_nothing(encoder):
    """A batch gives every sentence what it gets alone, to rounding."""
    together = encode(encoder, SENTENCES)
    assert together.shape == (4, 10, 14)
    for b, sentence in enumerate(SENTENCES):
        alone = encode(encoder, [sentence])[0]
        torch.testing.assert_close(together[b, : len(alone)], alone, rtol=0, atol=1e-12)


def test_each_layer_is_torchs_bidirectional_lstm(encoder):
    """The two one-directional LSTMs equal one packed bidirectional nn.LSTM."""
    layer = encoder[0].layers[0]
    reference = torch.nn.LSTM(11, 7, batch_first=True, bidirectional=True).double()
    for name, value in layer.ahead.named_parameters():
        getattr(reference, name).data.copy_(value.data)
    for name, value in layer.back.named_parameters():
        getattr(reference, name + "_reverse").data.copy_(value.data)
    x = torch.randn(3, 6, 11, dtype=torch.float64)
    lengths = torch.tensor([6, 2, 4])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(reference(packed)[0], batch_first=True)
    mask = torch.arange(6) < lengths[:, None]
    torch.testing.assert_close(layer(x, lengths)[mask], expected[mask], rtol=0, atol=1e-12)


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    repeated=st.booleans(),
    wider=st.integers(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_without_padding_the_states_are_those_of_torchs_lstm(lengths, dtype, repeated, wider):
    """Without gradients our own loop runs; with them torch's LSTM does, over the padded batch."""
    torch.manual_seed(sum(lengths))
    layer = BidirectionalLayer(5, 4).to(dtype).eval()
    for parameter in layer.parameters():  # biases are 0 before training
        torch.nn.init.uniform_(parameter, -1, 1)
    counts, rows = torch.tensor(lengths), torch.randn(3, 5, dtype=dtype)
    width = max(lengths) + wider
    packing = Packing.of(counts, width)
    row_BT = torch.randint(3, (len(lengths), width))
    expected = layer(rows[row_BT], counts).detach()
    with torch.no_grad():
        assert recurrence.applies_to(layer)
        x, row_N = (rows, packing.pack(row_BT)) if repeated else (packing.pack(rows[row_BT]), None)
        found = packing.unpack(recurrence.states([layer.ahead, layer.back], x, row_N, packing))
    mask = torch.arange(width) < counts[:, None]
    atol = 1e-12 if dtype == torch.float64 else 2e-6
    torch.testing.assert_close(found[mask], expected[mask], rtol=0, atol=atol)
    assert not found[~mask].any()


@pytest.mark.parametrize("cached", [False, True])
def test_an_encoder_without_gradients_gives_what_it_gives_with_them(encoder, cached):
    module, table = encoder
    expected = encode(encoder, SENTENCES)
    with torch.no_grad():
        found = encode(encoder, SENTENCES, TypeVectors(module.float(), table) if cached else None)
    mask = torch.arange(10) < torch.tensor([len(s) + 2 for s in SENTENCES])[:, None]
    torch.testing.assert_close(found[mask], expected[mask], rtol=0, atol=1e-6)


def test_reverse_within_reverses_each_row_alone():
    x = torch.arange(8.0).reshape(2, 4, 1)
    index = reversal(torch.tensor([3, 4]), 4)
    assert reverse_within(x, index)[..., 0].tolist() == [[2, 1, 0, 3], [7, 6, 5, 4]]


def test_cached_type_vectors_equal_computed_ones(encoder):
    encoder[0].float()
    vectors = TypeVectors(*encoder)
    first = encode(encoder, SENTENCES[:2], vectors)
    torch.testing.assert_close(first, encode(encoder, SENTENCES[:2]), rtol=0, atol=1e-6)
    # Types met again come from the cache, new ones join it, also after many others.
    encoder[1].rows([f"w{i}" for i in range(2000)])
    torch.testing.assert_close(
        encode(encoder, SENTENCES, vectors), encode(encoder, SENTENCES), rtol=0, atol=1e-6
    )


def test_the_cache_is_bounded(encoder):
    encoder[0].float()
    vectors = TypeVectors(*encoder, max_types=10)
    encode(encoder, SENTENCES, vectors)
    assert len(encoder[1]) > 10
    vectors.batch(SENTENCES[1:2])
    assert len(encoder[1]) == 5
    torch.testing.assert_close(
        encode(encoder, SENTENCES, vectors), encode(encoder, SENTENCES), rtol=0, atol=1e-6
    )


def test_dropout_acts_in_training_only_and_follows_the_seed(encoder):
    encoder[0].train()
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(encode(encoder, SENTENCES))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    encoder[0].eval()
    assert torch.equal(encode(encoder, SENTENCES), encode(encoder, SENTENCES))


def test_gradients_reach_every_parameter(encoder):
    module, table = encoder
    module.train()
    batch = make_batch(table, [table.rows(s) for s in SENTENCES], end_boundary=True)
    module(batch)[batch.mask_BT()].sum().backward()
    assert all(p.grad is not None and np.isfinite(p.grad.numpy()).all() for p in module.parameters())
