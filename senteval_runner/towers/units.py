"""What a study evaluates: one layer, or several side by side, under one pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corpora.support.errors import UserError

Column = tuple[str, str]
"""A layer and a pooling: one stored vector per sentence."""
WHOLE, OWN = "whole", "own"
"""The layer and the pooling of an encoder that is not opened up."""


@dataclass(frozen=True)
class Unit:
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

    def columns(self) -> list[Column]:
        """The stored vectors it is made of."""
        return [(layer, self.pooling) for layer in self.layers]


def transformer_layers(count: int) -> tuple[str, ...]:
    """``emb``, then the layers from the bottom up as EMP counts them: ``-12`` ... ``-1``."""
    return ("emb", *(str(number) for number in range(-count, 0)))


def _known(names: str, layers: Sequence[str], backbone: str) -> tuple[str, ...]:
    """Layers by name, ``top`` and ``bottom`` among them, each once."""
    ends = {"top": "-1", "bottom": f"-{sum(layer.startswith('-') for layer in layers)}"}
    found = [ends.get(name.strip(), name.strip()) for name in names.split(",")]
    for name in found:
        if name not in layers:
            raise UserError(f"{backbone}: no layer {name!r}; it has {', '.join(layers)}")
    if len(set(found)) < len(found):
        raise UserError(f"{names}: one layer of {backbone} twice")
    return tuple(found)


def chosen_layers(text: str, layers: Sequence[str], backbone: str) -> list[str]:
    """``--layers`` as names, from the bottom up.

    Raises:
        UserError: the backbone has no such layer.
    """
    wanted = layers if text == "all" else _known(text, layers, backbone)
    return [layer for layer in layers if layer in wanted]


def chosen_joins(texts: Sequence[str], layers: Sequence[str], backbone: str) -> list[tuple[str, ...]]:
    """``--concatenate`` as layers to be put side by side, each choice once.

    ``top,bottom`` says nothing to a backbone with one layer or with tree nodes instead of layers.

    Raises:
        UserError: fewer than two layers, one of them twice, or one that the backbone lacks.
    """
    joins: dict[tuple[str, ...], None] = {}
    for text in texts:
        if "," not in text:
            raise UserError(f"--concatenate {text!r}: expected two or more layers, as in -1,-12")
        ends = {name.strip() for name in text.split(",")} == {"top", "bottom"}
        if not ends or sum(layer.startswith("-") for layer in layers) > 1:
            joins[_known(text, layers, backbone)] = None
    return list(joins)


def chosen_unit(
    text: str, pooling: str, backbone: str, layers: Sequence[str], columns: Sequence[Column]
) -> Unit:
    """One layer, or several separated by commas, under one pooling.

    Args:
        text: the layers.
        pooling: its name.
        backbone: its name, for messages.
        layers: of the backbone.
        columns: of the backbone.

    Raises:
        UserError: the backbone has no such layer, or no such vector of it.
    """
    unit = Unit(_known(text, layers, backbone), pooling)
    for layer, _ in unit.columns():
        if (layer, pooling) not in columns:
            has = ", ".join(dict.fromkeys(name for one, name in columns if one == layer))
            raise UserError(f"{backbone}: no pooling {pooling!r} of layer {layer}; it has {has}")
    return unit


def units_of(
    columns: Sequence[Column],
    layers: Sequence[str],
    joins: Sequence[tuple[str, ...]],
    poolings: Sequence[str],
) -> list[Unit]:
    """All units whose columns exist, layer by layer, those of several layers last."""
    rows = [*((layer,) for layer in layers), *joins]
    units = [Unit(tuple(row), pooling) for row in rows for pooling in poolings]
    return [unit for unit in units if all(column in columns for column in unit.columns())]
