"""The BiLSTM against torch's own."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from parsing.networks.lstm import BidirectionalLayer, Packing, runs_packed


def torchs_states(layer: BidirectionalLayer, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Return the states of one bidirectional nn.LSTM with the layer's weights, over packed sentences."""
    reference = torch.nn.LSTM(5, 4, batch_first=True, bidirectional=True).to(x.dtype)
    for direction, suffix in ((layer.ahead, ""), (layer.back, "_reverse")):
        for name, value in direction.named_parameters():
            getattr(reference, name + suffix).data.copy_(value.data)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, counts, batch_first=True, enforce_sorted=False)
    return torch.nn.utils.rnn.pad_packed_sequence(reference(packed)[0], batch_first=True)[0].detach()


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    repeated=st.booleans(),
    wider=st.integers(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_states_are_those_of_torchs_bidirectional_lstm(lengths, dtype, repeated, wider):
    """With gradients over the padded batch; without them by our own loop."""
    torch.manual_seed(sum(lengths))
    layer = BidirectionalLayer(5, 4).to(dtype).eval()
    for parameter in layer.parameters():  # biases are 0 before training
        torch.nn.init.uniform_(parameter, -1, 1)
    counts, rows = torch.tensor(lengths), torch.randn(3, 5, dtype=dtype)
    width = max(lengths) + wider
    packing = Packing.of(counts, width)
    row_BT = torch.randint(3, (len(lengths), width))
    expected = torchs_states(layer, rows[row_BT], counts)
    with torch.no_grad():
        assert runs_packed(layer)
        x, row_N = (rows, packing.pack(row_BT)) if repeated else (packing.pack(rows[row_BT]), None)
        packed_states = packing.unpack(layer.packed_states(x, row_N, packing))
        compiled_states = packing.unpack(layer.packed_states(x, row_N, packing, layer.recurrent_weights()))
    mask = torch.arange(width) < counts[:, None]
    within = {"rtol": 0, "atol": 1e-12 if dtype == torch.float64 else 2e-6}
    for states in (packed_states, compiled_states, layer(rows[row_BT], counts).detach()):
        torch.testing.assert_close(states[mask], expected[mask[:, : max(lengths)]], **within)
    assert not packed_states[~mask].any() and not compiled_states[~mask].any()
