"""Two parsers over one encoder: one pass of it, the same trees as alone."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from parsing.constituency.model import SpanParser
from parsing.dependency.model import BiaffineParser, DependencyModel
from parsing.models import load_constituency_parser, load_dependency_parser

from parsing.cache.format import CONST_FALLBACK
from parsing.networks.config import ScorerConfig
from parsing.networks.parser import join
from parsing.networks.sentence_encoder import SentenceEncoder
from parsing.text_parser import TextParser
from tests.parsing.constituency.examples import random_model as random_spans
from tests.parsing.dependency.examples import ODD, SENTENCES, as_lists

TOKENS = [list(s.tokens) for s in SENTENCES] + ODD


def random_pair(seed: int = 0) -> tuple[BiaffineParser, SpanParser]:
    """Two parsers whose encoders have the same weights, each its own copy."""
    spans = random_spans(seed)
    scorer = ScorerConfig(arc_dim=7, relation_dim=5)
    arcs = DependencyModel(spans.vocabulary, ["a", "b", "root"], spans.encoder.config, scorer)
    with torch.no_grad():
        for parameter in arcs.parameters():
            parameter.normal_(0, 0.5)
    arcs.encoder.load_state_dict(spans.encoder.state_dict())
    return BiaffineParser(arcs, {}), SpanParser(spans, {})


def test_trees_are_the_same_together_and_alone():
    builtin = load_dependency_parser("builtin"), load_constituency_parser("builtin")
    for dependency, constituency in (random_pair(), builtin):
        joint = join(dependency, constituency)
        arcs, spans = zip(*joint.parse(TOKENS), strict=True)
        assert as_lists(arcs) == as_lists(dependency.parse(TOKENS))
        assert as_lists(spans) == as_lists(constituency.parse(TOKENS))
        assert joint.parse([]) == []


def test_each_sentence_is_encoded_once(monkeypatch):
    encoded = Counter()
    forward = SentenceEncoder.forward

    def counted(self, batch, vectors=None):
        encoded["sentences"] += len(batch.lengths_B)
        return forward(self, batch, vectors)

    monkeypatch.setattr(SentenceEncoder, "forward", counted)
    together = TextParser(*random_pair()).arrays(TOKENS)
    assert encoded["sentences"] == len(TOKENS)
    monkeypatch.setattr("parsing.networks.parser.join", lambda *parsers: None)
    apart = TextParser(*random_pair()).arrays(TOKENS)
    assert encoded["sentences"] == 3 * len(TOKENS)
    for field in together.fields:
        np.testing.assert_array_equal(getattr(together, field), getattr(apart, field))


def test_parsers_with_other_encoders_are_not_joined():
    dependency, constituency = random_pair()
    assert join(dependency, None) is None and join(None, constituency) is None
    assert join(dependency, random_pair(1)[1]) is None
    constituency.use_bfloat16()
    assert join(dependency, constituency) is None
    dependency.use_bfloat16()
    assert join(dependency, constituency) is not None
    changed, other = random_pair()
    with torch.no_grad():
        other.model.encoder.layers[1].back.weight_hh_l0[0, 0] += 1e-6
    assert join(changed, other) is None


def test_a_sentence_that_fails_costs_no_other(monkeypatch):
    dependency, constituency = random_pair()
    states = constituency.states

    def fail_on_dogs(sentences):
        if any("dog" in tokens for tokens in sentences):
            raise ValueError("a dog")
        return states(sentences)

    monkeypatch.setattr(constituency, "states", fail_on_dogs)
    batch = TextParser(dependency, constituency).arrays(TOKENS)
    dogs = [CONST_FALLBACK * ("dog" in tokens) for tokens in TOKENS]
    assert batch.flags.tolist() == dogs and sum(map(bool, dogs)) == 2
