"""The biaffine equations, one pair of words at a time (Dozat & Manning 2017)."""

import torch
from torch.nn import functional

from parsing.networks.features import TypeTable, make_batch


def states(model, sentences):
    """States and positions of a batch, as in parsing and training."""
    batch = make_batch(TypeTable(model.vocabulary), sentences, end_boundary=model.encoder.config.end_boundary)
    return model.encoder(batch), batch.lengths_B


def slow_scores(model, tokens):
    """Score all pairs of words as dependent and head, [n + 1, n + 1], and their relations, [..., R]."""
    one = torch.ones(1)
    x_TD = states(model, [tokens])[0][0, : len(tokens) + 1]

    def mlp(layer, x_D):
        return functional.leaky_relu(layer.weight @ x_D + layer.bias, 0.1)

    def scores_of(dependent_D, head_D):
        relation_head = torch.cat([mlp(model.relation_head, head_D), one])
        relation_dependent = torch.cat([mlp(model.relation_dependent, dependent_D), one])
        arc = torch.cat([mlp(model.arc_dependent, dependent_D), one]) @ model.arc_weight
        relations = [relation_dependent @ weight @ relation_head for weight in model.relation_weight]
        return arc @ mlp(model.arc_head, head_D), torch.stack(relations)

    rows = [[scores_of(dependent_D, head_D) for head_D in x_TD] for dependent_D in x_TD]
    arcs = torch.stack([torch.stack([arc for arc, _ in row]) for row in rows])
    return arcs, torch.stack([torch.stack([relations for _, relations in row]) for row in rows])
