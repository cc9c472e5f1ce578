"""What a study evaluates: one layer, or several side by side, under one pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from corpora.support.errors import UserError

WHOLE, OWN = "whole", "own"
"""The layer and the pooling of an encoder that is not opened up."""


class Unit(NamedTuple):
    """One row of a table under one pooling."""

    layers: tuple[str, ...]
    """One layer, or several whose vectors are put side by side."""
    pooling: str

    @property
    def row(self) -> str:
        """``-1``, or ``-1,-12``."""
        return ",".join(self.layers)

    @property
    def name(self) -> str:
        """``-1 mean``."""
        return f"{self.row} {self.pooling}"

    def columns(self) -> list[tuple[str, str]]:
        """Layer and pooling of the stored vectors it is made of."""
        return [(layer, self.pooling) for layer in self.layers]


def transformer_layers(count: int) -> tuple[str, ...]:
    """``emb``, then the layers from the bottom up as EMP counts them: ``-12`` ... ``-1``."""
    return ("emb", *(str(number) for number in range(-count, 0)))


def chosen(names: str, layers: Sequence[str], backbone: str) -> tuple[str, ...]:
    """Layers by name, ``top`` and ``bottom`` among them, in the given order.

    Raises:
        UserError: the backbone has no such layer, or one is named twice.
    """
    ends = {"top": "-1", "bottom": f"-{len(layers) - 1}"}
    found = [ends.get(name.strip(), name.strip()) for name in names.split(",")]
    for name in found:
        if name not in layers:
            raise UserError(f"{backbone}: no layer {name!r}; it has {', '.join(layers)}")
    if len(set(found)) < len(found):
        raise UserError(f"{names}: one layer of {backbone} twice")
    return tuple(found)


def chosen_joins(texts: Sequence[str], layers: Sequence[str], backbone: str) -> list[tuple[str, ...]]:
    """``--concatenate`` as layers to be put side by side, each choice once.

    ``top,bottom`` says nothing to a backbone with one layer.

    Raises:
        UserError: fewer than two layers, one of them twice, or one that the backbone lacks.
    """
    for text in texts:
        if "," not in text:
            raise UserError(f"--concatenate {text!r}: expected two or more layers, as in -1,-12")
    wanted = [text for text in texts if text != "top,bottom" or len(layers) > 2]
    return list(dict.fromkeys(chosen(text, layers, backbone) for text in wanted))
