"""Groups of like length: least cost against trying everything; the same vectors as one padded batch."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from senteval_runner.towers import transformer as towers
from senteval_runner.towers.length_groups import cut_padding, length_groups
from senteval_runner.towers.transformer import load_tower
from studies.finetune.config import TinyConfig
from studies.finetune.tiny import build_tiny
from tests.studies.finetune.fixtures import nli_rows


def least_cost(lengths: list[int], call_cost: int) -> int:
    """Every way to cut the sorted lengths into runs."""
    ordered = sorted(lengths)
    costs = []
    for count in range(len(ordered)):
        for cuts in combinations(range(1, len(ordered)), count):
            edges = [0, *cuts, len(ordered)]
            costs.append(sum((b - a) * ordered[b - 1] + call_cost for a, b in pairwise(edges)))
    return min(costs)


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=9), call_cost=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_no_other_grouping_is_cheaper(lengths: list[int], call_cost: int) -> None:
    groups = length_groups(np.array(lengths), call_cost)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    cost = sum(len(rows) * max(lengths[i] for i in rows) + call_cost for rows in groups)
    assert cost == least_cost(lengths, call_cost)


def test_columns_of_padding_alone_are_cut_on_either_side() -> None:
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 1]])
    features = {"attention_mask": mask, "input_ids": mask * torch.arange(1, 5), "prompt_length": 3}
    right = cut_padding(features, np.array([1]))
    assert right["input_ids"].tolist() == [[1, 2]] and right["prompt_length"] == 3
    assert cut_padding(features, np.array([2]))["input_ids"].tolist() == [[4]]
    assert cut_padding(features, np.array([2, 1]))["input_ids"].tolist() == [[0, 0, 4], [1, 2, 0]]


def test_grouping_changes_no_vector_and_no_gradient(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text for row in nli_rows(12, 0) for text in row[1:]] + ["dog", "a dog " * 20, "dog"]
    config = TinyConfig(layers=1, hidden=32, vocabulary=300)
    tower = load_tower(str(build_tiny(tmp_path / "bert", texts, config, seed=1)), dropout=0.0)

    def run() -> tuple[torch.Tensor, list[torch.Tensor]]:
        vectors = tower.embed(texts)
        tower.zero_grad()
        vectors.square().sum().backward()
        return vectors.detach(), [p.grad.clone() for p in tower.parameters() if p.grad is not None]

    monkeypatch.setattr(towers, "length_groups", lambda lengths: length_groups(lengths, 0))
    grouped = run()
    monkeypatch.setattr(towers, "length_groups", lambda lengths: [np.arange(len(lengths))])
    whole = run()
    torch.testing.assert_close(grouped[0], whole[0], atol=1e-5, rtol=1e-4)
    for ours, plain in zip(grouped[1], whole[1], strict=True):
        torch.testing.assert_close(ours, plain, atol=1e-4, rtol=1e-3)
