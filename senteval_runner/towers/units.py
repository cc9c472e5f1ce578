"""What a study evaluates: one layer, or several side by side, under one pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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


def chosen_joins(texts: Sequence[str], layers: Sequence[str], backbone: str) -> list[tuple[str, ...]]:
    """``--concatenate`` as layers to be put side by side, each choice once.

    ``top,bottom`` says nothing to a backbone with one layer or with tree nodes instead of layers.

    Raises:
        UserError: fewer than two layers, one of them twice, or one that the backbone lacks.
    """
    joins: dict[tuple[str, ...], None] = {}
    for text in texts:
        names = [name.strip() for name in text.split(",")]
        if len(names) < 2:
            raise UserError(f"--concatenate {text!r}: expected two or more layers, as in -1,-12")
        if {"top", "bottom"} == set(names) and sum(layer.startswith("-") for layer in layers) < 2:
            continue
        joins[_several(f"--concatenate {text}", names, layers, backbone)] = None
    return list(joins)


def _several(option: str, names: Sequence[str], layers: Sequence[str], backbone: str) -> tuple[str, ...]:
    found = tuple(_one(name, layers, backbone) for name in names)
    if len(set(found)) < len(found):
        raise UserError(f"{option}: one layer of {backbone} twice")
    return found


class HasColumns(Protocol):
    """What a choice needs to know of a backbone."""

    name: str
    layers: tuple[str, ...]
    columns: list[Column]


def chosen_unit(layers: str, pooling: str, backbone: HasColumns) -> Unit:
    """One layer, or several separated by commas, under one pooling.

    Raises:
        UserError: the backbone has no such layer, or no such vector of it.
    """
    names = [name.strip() for name in layers.split(",")]
    unit = Unit(_several(f"layers {layers}", names, backbone.layers, backbone.name), pooling)
    for layer, _ in unit.columns():
        if (layer, pooling) not in backbone.columns:
            has = ", ".join(dict.fromkeys(name for one, name in backbone.columns if one == layer))
            raise UserError(f"{backbone.name}: no pooling {pooling!r} of layer {layer}; it has {has}")
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
