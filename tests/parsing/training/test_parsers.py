"""What parsers learn from: the loss of both, whose treebanks meet, where training starts; scores."""

import numpy as np
import pytest
import torch

from corpora.brackets import read_tree
from parsing.networks.config import EncoderSizes, ModelConfig, ParserLoopConfig, ScorerSizes, SpanSizes
from parsing.training.parsers import ARC_SCALE, ParserTrainer
from parsing.training.scores import bracket_scores
from tests.fixtures.device import OneDevice
from tests.oracles.biaffine import slow_scores, states
from tests.parsing.examples import SENTENCES

TREES = [
    "(S (NP (DET The) (NOUN cat)) (VP (VERB sat) (PP (ADP on) (NP (DET the) (NOUN mat)))) (PUNCT .))",
    "(S (NP (DET A) (NOUN dog)) (VP (VERB chased) (NP (DET the) (NOUN cat))) (PUNCT .))",
    "(S (NP (NOUN Cats)) (VP (VERB sleep)))",
    "(S (NP (NOUN Birds)) (VP (VERB sing)))",
]
"""Of the first three sentences with arcs, and of one that has none."""
CONFIG = ModelConfig(
    encoder=EncoderSizes(word_dim=6, character_dim=4, character_hidden=8, hidden=9),
    arcs=ScorerSizes(arc_dim=7, relation_dim=5),
    spans=SpanSizes(label_hidden=8),
    min_count=1,
)


def parser_task(sentences=tuple(SENTENCES), trees=tuple(TREES)):
    gold = [read_tree(text) for text in trees]
    task = ParserTrainer(sentences, gold, {"dep": sentences, "const": gold}, CONFIG, ParserLoopConfig(seed=0))
    with torch.no_grad():
        for parameter in task.state.module.parameters():
            parameter.normal_(0, 0.5)
    task.state.module.eval()
    return task


def slow_loss(model, sentences):
    """Mean of −log p(head) − log p(relation | head), one word at a time."""
    losses = []
    for sentence in sentences:
        arcs, relations = slow_scores(model, sentence.tokens)
        for i, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True), 1):
            of_relation = relations[i, head].log_softmax(0)[model.relations.index(relation)]
            losses.append(-arcs[i].log_softmax(0)[head] - of_relation)
    return float(torch.stack(losses).mean())


@torch.no_grad()
def test_the_loss_is_that_of_the_equations():
    alone = parser_task(trees=())
    assert float(alone.loss([0, 2, 3])) == pytest.approx(
        slow_loss(alone.dependency, [SENTENCES[i] for i in (0, 2, 3)]), rel=1e-4
    )
    task = parser_task()
    batch = [0, 2, len(SENTENCES)]  # the last one has a tree and no arcs
    assert task.words == [*(s.tokens for s in SENTENCES), ("Birds", "sing")]
    arcs = slow_loss(task.dependency, [SENTENCES[i] for i in batch[:2]])
    encoded = states(task.dependency, [task.words[i] for i in batch])
    parses, tags = [task.parses[i] for i in batch], [task.tags[i] for i in batch]
    assert all(parse is not None for parse in parses)
    spans = task.constituency.loss(*encoded, parses, tags)
    assert float(task.loss(batch)) == pytest.approx(float(spans) + ARC_SCALE * arcs, rel=1e-4)


GOLD = read_tree(
    "(TOP (S (NP (PRP It)) (VP (VBZ eats) (NP (DT the) (NN fish)) (PP (IN in) (NP (NN May)))) (. .)))"
)
# The PP hangs on the noun phrase: NP(2,6) instead of a flat VP; one wrong tag.
ATTACHED = read_tree(
    "(TOP (S (NP (PRP It)) (VP (VBZ eats) (NP (NP (DT the) (NN fish)) (PP (IN in) (NP (NNP May))))) (. .)))"
)


def test_bracket_scores_count_over_the_treebank() -> None:
    assert set(bracket_scores([GOLD], [GOLD]).values()) == {100}
    # gold: S NP VP NP PP NP = 6; predicted: one NP more = 7; all 6 match; 6 of 7 tags.
    assert bracket_scores([GOLD], [ATTACHED]) == pytest.approx(
        {"recall": 100, "precision": 600 / 7, "f1": 1200 / 13, "tags": 600 / 7, "complete": 0}
    )
    # 6 + 1 gold, 7 + 1 predicted, 6 + 0 matched.
    other, wrong = read_tree("(TOP (NP (NN fish)))"), read_tree("(TOP (VP (NN fish)))")
    assert bracket_scores([GOLD, other], [ATTACHED, wrong])["f1"] == pytest.approx(100 * 12 / 15)
    # A chain is one bracket each, repeats count; the wrapper is none.
    chain, shorter = (read_tree(f"(TOP (S (VP {np})))") for np in ("(NP (NP (NN fish)))", "(NP (NN fish))"))
    scores = bracket_scores([chain], [shorter])
    assert scores["precision"] == 100 and scores["recall"] == 75


def test_punctuation_is_not_seen() -> None:
    inside = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains) (. .))))")
    outside = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains)) (. .)))")
    assert bracket_scores([outside], [inside])["f1"] == 100
    # The gold tags decide what is punctuation, whatever was predicted.
    mistagged = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains) (NN .))))")
    scores = bracket_scores([outside], [mistagged])
    assert scores["f1"] == 100 and scores["tags"] == pytest.approx(200 / 3)


def test_a_training_step_leaves_nothing_on_the_host(monkeypatch):
    """The loss on torch's device without memory: a tensor on the wrong side of an operation is an error."""
    task = parser_task()
    on_host = task.loss([0, 1, len(SENTENCES)]).item()
    monkeypatch.setattr(
        "parsing.networks.constituency.to_host", lambda tensor: lambda: np.zeros(tensor.shape, np.float32)
    )
    task.state.module.to("meta").train()
    with OneDevice():
        loss = task.loss([0, 1, len(SENTENCES)])
        loss.backward()
    assert loss.device.type == "meta" and on_host > 0
    assert all(p.grad.device.type == "meta" for p in task.state.module.parameters() if p.grad is not None)
    assert task.dependency.arc_weight.grad is not None
    assert task.constituency.span_head[0].weight.grad is not None
