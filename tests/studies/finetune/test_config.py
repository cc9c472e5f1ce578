"""Every number of the studies' options has a range, and the commands refuse numbers out of it by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from corpora.support.config import check
from corpora.support.errors import UserError
from studies.analogies.config import BuildConfig
from studies.burt.__main__ import cli
from studies.burt.config import BurtConfig
from studies.burt.train import train
from studies.faq.config import FaqConfig
from studies.finetune.config import LoopConfig, TinyConfig
from studies.layers.config import LayersConfig
from studies.multitask.config import MultitaskConfig
from studies.multitask.run import run
from studies.passages.config import PassagesConfig
from studies.similarity.config import SimilarityConfig
from tests.studies.finetune.fixtures import write_tsv

BURT = BurtConfig(output=Path("x"))
MULTITASK = MultitaskConfig(output=Path("x"))
CONFIGS = (
    BURT,
    MULTITASK,
    FaqConfig(),
    PassagesConfig(),
    BuildConfig(),
    SimilarityConfig(models=("x",)),
    LayersConfig(backbones=("x",)),
)


def without_range(config: type[Any]) -> Iterator[str]:
    """Names of the numbers that may have any value."""
    for name, hint in get_type_hints(config, include_extras=True).items():
        if is_dataclass(hint):
            yield from without_range(hint)
        elif has_bare_number(hint):
            yield name


def has_bare_number(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return False
    return hint in (int, float) or any(has_bare_number(part) for part in get_args(hint))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_every_number_but_seeds_has_a_range_and_the_defaults_are_in_it(config: Any) -> None:
    assert set(without_range(type(config))) <= {"seed", "random_seed"}
    assert any("seed" in entry.name or entry.name == "runs" for entry in fields(config))
    check(config)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (replace(BURT, batch_size=0), "--batch-size 0: must be at least 1"),
        (replace(BURT, epochs=-1.0), "--epochs -1.0: must be above 0"),
        (replace(BURT, epochs=float("nan")), "--epochs nan: must be"),
        (replace(BURT, dropout=2.0), "--dropout 2.0: must be below 1"),
        (replace(BURT, held_out=1.0), "--held-out"),
        (replace(BURT, max_length=0), "--max-length 0: must be at least 4"),
        (replace(BURT, evaluate_every=0), "--evaluate-every"),
        (replace(BURT, loop=LoopConfig(learning_rate=0.0)), "--loop.learning-rate"),
        (replace(BURT, loop=LoopConfig(betas=(0.9, 1.0))), "--loop.betas"),
        (replace(BURT, tiny=TinyConfig(hidden=0)), "--tiny.hidden"),
        (replace(MULTITASK, epochs=0), "--epochs"),
        (replace(MULTITASK, dropout=-0.5), "--dropout"),
        (replace(FaqConfig(), train_fraction=1.0), "--train-fraction 1.0: must be below 1"),
        (LayersConfig(backbones=("x",), max_length=2), "--max-length 2: must be at least 4"),
        (LayersConfig(backbones=("x",), threads=0), "--threads 0: must be at least 1"),
        (LayersConfig(backbones=("x",), seed=-1), "--seed -1: must be at least 0"),
        (LayersConfig(backbones=("x",), limit=39), "--limit 39: must be at least 40"),
    ],
)
def test_numbers_out_of_range_are_named(config: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        check(config)


def test_a_width_that_its_heads_do_not_divide_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for command, config in ((train, BURT), (run, MULTITASK)):
        wide = replace(config, output=tmp_path / "out", tiny=TinyConfig(hidden=200))
        with pytest.raises(UserError, match=r"--tiny\.hidden 200: must be a multiple of its 3 heads"):
            command(wide)  # type: ignore[operator]
    assert not (tmp_path / "out").exists()


def test_the_command_checks_before_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["--output", str(tmp_path / "out"), "--batch-size", "0"]) == 2
    assert "--batch-size 0: must be at least 1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_nothing_to_train_on_is_told(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "odd.tsv", [("maybe", "a dog", "a cat")])
    with pytest.raises(UserError, match=r"odd\.tsv leave no training pair: 1 without a three-way label"):
        train(BurtConfig(output=tmp_path / "out", backbone="tiny", nli=(path,), objectives=("nli",)))
    (tmp_path / "grid.txt").write_text("\n\n")
    with pytest.raises(UserError, match="holds no line with stages"):
        run(MultitaskConfig(output=tmp_path / "out", backbone="tiny", grid=str(tmp_path / "grid.txt")))
