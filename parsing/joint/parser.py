"""Two parsers that share a sentence encoder, run with one pass of it.

Each is a whole parser by itself, and gives the same trees by itself: sharing only saves the second pass.

Shape suffixes: B sentences, T positions, D states.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from parsing.constituency.model import SpanParser
from parsing.dependency.parser import BiaffineParser
from parsing.networks.device import Stages
from parsing.trees.parsers import (
    ConstituencyParse,
    ConstituencyParser,
    DependencyParse,
    DependencyParser,
    check_tokens,
)

Parses = tuple[DependencyParse, ConstituencyParse]


class JointParser:
    """Both trees of a sentence from one pass of the encoder; made by :func:`join`.

    Args:
        dependency: the one parser.
        constituency: the other, whose encoder has the same weights.
    """

    def __init__(self, dependency: BiaffineParser, constituency: SpanParser) -> None:
        self.dependency, self.constituency = dependency, constituency

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parses]:
        """Both parses of each sentence, in order."""
        check_tokens(sentences)
        return self.constituency.runner.run(
            [len(tokens) + 2 for tokens in sentences],
            lambda members: self._parse_batch([sentences[i] for i in members]),
        )

    @torch.inference_mode()
    def _parse_batch(self, sentences: Sequence[Sequence[str]]) -> Stages[Parses]:
        states_BTD, positions_B = self.constituency.states(sentences)
        arcs = yield from self.dependency.parse_states(states_BTD, positions_B - 1)
        spans = yield from self.constituency.parse_states(states_BTD, positions_B)
        return list(zip(arcs, spans, strict=True))


def join(dependency: DependencyParser | None, constituency: ConstituencyParser | None) -> JointParser | None:
    """Both parsers as one, or None unless they have the same encoder on the same device."""
    if not isinstance(dependency, BiaffineParser) or not isinstance(constituency, SpanParser):
        return None
    one, other = dependency.encoder_identity(), constituency.encoder_identity()
    return JointParser(dependency, constituency) if one == other else None
