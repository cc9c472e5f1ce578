"""What a study evaluates: one layer, or two side by side, under one pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corpora.support.errors import UserError

Column = tuple[str, str]
"""A layer and a pooling: one stored vector per sentence."""


@dataclass(frozen=True)
class Unit:
    """One row of a table under one pooling."""

    layers: tuple[str, ...]
    """One layer, or two whose vectors are put side by side."""
    pooling: str

    @property
    def row(self) -> str:
        """``-1``, or ``-1,-12``."""
        return ",".join(self.layers)

    @property
    def name(self) -> str:
        """``-1 mean``."""
        return f"{self.row} {self.pooling}"

    def columns(self) -> list[Column]:
        """The stored vectors it is made of."""
        return [(layer, self.pooling) for layer in self.layers]


def transformer_layers(count: int) -> tuple[str, ...]:
    """``emb``, then the layers from the bottom up as EMP counts them: ``-12`` ... ``-1``."""
    return ("emb", *(str(number) for number in range(-count, 0)))


def _one(name: str, layers: Sequence[str], backbone: str) -> str:
    named = {"top": "-1", "bottom": f"-{sum(layer.startswith('-') for layer in layers)}"}
    found = named.get(name, name)
    if found not in layers:
        raise UserError(f"{backbone}: no layer {name!r}; it has {', '.join(layers)}")
    return found


def chosen_layers(text: str, layers: Sequence[str], backbone: str) -> list[str]:
    """``--layers`` as names, from the bottom up.

    Raises:
        UserError: the backbone has no such layer.
    """
    if text == "all":
        return list(layers)
    wanted = {_one(name.strip(), layers, backbone) for name in text.split(",")}
    return [layer for layer in layers if layer in wanted]


def chosen_pairs(texts: Sequence[str], layers: Sequence[str], backbone: str) -> list[tuple[str, ...]]:
    """``--concatenate`` as pairs of names, each once.

    ``top,bottom`` says nothing to a backbone with one layer or with tree nodes instead of layers.

    Raises:
        UserError: not a pair, or a layer the backbone lacks.
    """
    pairs: list[tuple[str, ...]] = []
    for text in texts:
        names = [name.strip() for name in text.split(",")]
        if len(names) != 2 or names[0] == names[1]:
            raise UserError(f"--concatenate {text!r}: expected two different layers, as in -1,-12")
        if {"top", "bottom"} == set(names) and sum(layer.startswith("-") for layer in layers) < 2:
            continue
        pair = tuple(_one(name, layers, backbone) for name in names)
        if pair[0] == pair[1]:
            raise UserError(f"--concatenate {text!r}: {backbone} has one such layer, not two")
        if pair not in pairs:
            pairs.append(pair)
    return pairs


def units_of(
    columns: Sequence[Column],
    layers: Sequence[str],
    pairs: Sequence[tuple[str, ...]],
    poolings: Sequence[str],
) -> list[Unit]:
    """All units whose columns exist, layer by layer, the pairs last."""
    rows = [*((layer,) for layer in layers), *pairs]
    units = [Unit(tuple(row), pooling) for row in rows for pooling in poolings]
    return [unit for unit in units if all(column in columns for column in unit.columns())]
