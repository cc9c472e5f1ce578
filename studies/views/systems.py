"""Define the systems that ``studies.views`` compares, pairs of views and controls, and their training."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from multiview.config import NO_START, TRAIN, NewViewsConfig, decisive_options, options_of, preset
from senteval_runner.report.page import Table
from studies.views.config import QUICKTHOUGHT, Scale, ViewsConfig, Words

BEST_OF_PAPER = "dep,const"
"""The pair that the paper found best; if it is among the systems, the others are compared with it."""
START = "start of "
"""The prefix of the name of a control: a pair of views before training."""
AVERAGE = "average of its words"
RANDOM = "random words"
PATIENCE = 2
"""The number of validations without a lower loss, of ten, after which a training stops."""


@dataclass(frozen=True, kw_only=True)
class System:
    """One row of a table, at one seed."""

    name: str
    """A pair of views, QuickThought, or a control."""
    words: Words
    trees: Path
    """The tree cache of the training text."""
    rate: float
    """The learning rate; that of a control is the rate of the models that it is made from."""
    seed: int
    of: str = ""
    """The pair of views whose words are averaged; empty for other systems."""

    @property
    def views(self) -> str:
        """The pair of views, as an option of multiview.train."""
        views = (self.of or self.name).removeprefix(START)
        return "seq,seq" if views in (QUICKTHOUGHT, RANDOM) else views

    @property
    def is_trained(self) -> bool:
        """Whether the system is trained; if not, it is a control."""
        return self.name not in (AVERAGE, RANDOM) and not self.name.startswith(START)

    @property
    def row(self) -> str:
        """The name of the system in tables, without the seed."""
        name = f"{self.name}, {self.words} words"
        return f"{name}, {self.trees.name}, rate {self.rate:g}" if self.is_trained else name

    @property
    def label(self) -> str:
        """The name of the folders of the system."""
        name = f"{self.name}, {self.words} words, {self.trees.name}, rate {self.rate:g}"
        return f"{re.sub(', |,| ', '-', name).lower()}-seed{self.seed}"

    def score_folder(self, scale: Scale) -> str:
        """Return the folder of the scores, below the output."""
        return f"scores/{self.label}/{scale}"

    def spec(self, models: Path, scale: Scale) -> str:
        """Return the name of the model in ``senteval_runner.run``; trained models are in ``models``."""
        scaled = f"scale={self.trees if scale == 'one' else 'none'}"
        if self.name == RANDOM:
            return f"bag:random?{scaled}"
        name = self.of if self.name == AVERAGE else self.name.removeprefix(START)
        folder = models / replace(self, name=name).label
        parts = []
        for model in [folder / "trained", folder / "fixed"] if self.words == "both" else [folder]:
            if self.name == AVERAGE:
                parts.append(f"bag:{model}?{scaled}")
            elif self.name.startswith(START):
                parts.append(f"start:{model}?corpus={self.trees}?{scaled}")
            else:
                parts.append(f"{model}?{scaled}")
        return "+".join(parts)


def reference(config: ViewsConfig) -> str:
    """Return the pair with which the others are compared."""
    return BEST_OF_PAPER if BEST_OF_PAPER in config.systems else config.systems[0]


def all_systems(config: ViewsConfig) -> list[System]:
    """Return the systems and controls of every seed; controls are made from the first text and rate."""
    rates = config.rates or (preset(config.preset, start=NO_START).learning_rate,)
    systems: list[System] = []
    for seed, words in product(config.seeds, config.words):
        first = System(name="", words=words, trees=config.trees[0], rate=rates[0], seed=seed)
        for rate, trees, name in product(rates, config.trees, config.systems):
            systems.append(replace(first, name=name, trees=trees, rate=rate))
        controls = [replace(first, name=START + name) for name in config.systems if name != QUICKTHOUGHT]
        is_first_seed = seed == config.seeds[0]
        # The average of fixed words is the same for every seed.
        if words != "fixed" or is_first_seed:
            controls.append(replace(first, name=AVERAGE, of=reference(config)))
        if is_first_seed:
            controls.append(replace(first, name=RANDOM))
        if config.controls:
            systems += controls
    return systems


def training(config: ViewsConfig, system: System, *, steps: int = 0) -> NewViewsConfig:
    """Return the options with which a system is trained from random weights.

    ``steps`` is the number of steps of a short trial; 0 trains in full.
    """
    base = preset(config.preset, start=NO_START)
    assert isinstance(base, NewViewsConfig)
    objective = base.objective
    if system.name == QUICKTHOUGHT:
        objective = replace(objective, score="dot", denominator="quickthought")
    loop = replace(base.loop, learning_rate=system.rate, epochs=config.passes or base.epochs)
    loop = replace(loop, max_steps=steps or loop.max_steps)
    if config.validation:
        loop = replace(loop, validation=config.validation, patience=PATIENCE)
    case, dim = config.case or base.table.case, config.word_dim or base.table.dim
    table = replace(base.table, case=case, dim=dim)
    if config.vectors == TRAIN or system.words == "fixed" or steps:
        table = replace(table, expand=0)
    return replace(
        base,
        views=system.views,
        words=system.words,
        vectors=config.vectors,
        beside=config.beside,
        trees=system.trees,
        seed=system.seed,
        output=config.output / "models",
        name=system.label,
        table=table,
        encoder=replace(base.encoder, dim=config.dim or base.encoder.dim),
        objective=objective,
        loop=loop,
    )


def training_options(config: ViewsConfig, system: System) -> dict[str, str]:
    """Return the options of a system's training on which the result depends."""
    return decisive_options(options_of(training(config, system)))


def options_table(config: ViewsConfig, systems: Sequence[System]) -> Table:
    """Return the table of the options in which a training differs from the paper."""
    trainings = [training_options(config, system) for system in systems if system.is_trained]
    rows = []
    for option, value in decisive_options(options_of(preset("paper"))).items():
        values = dict.fromkeys(options[option] for options in trainings)
        if set(values) != {value}:
            rows.append([option, value, "; ".join(values)])
    return Table(["option", "paper", "here"], rows)
