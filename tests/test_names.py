"""Options of every command are named alike, and names that nearly exist are answered by those that do."""

from __future__ import annotations

import dataclasses
import importlib
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpora.registry import open_corpus
from corpora.support.cli import Command, Commands
from corpora.support.errors import UserError, did_you_mean
from multiview.encoders.registry import view_class
from senteval_runner.running import expand_tasks
from senteval_runner.vectors.sources import find_source
from tests.test_commands import commands


def every_command() -> Iterator[Command]:
    for module in commands():
        home = f"{module}.__main__" if module in STUDIES else module
        cli = importlib.import_module(home).cli
        yield from cli.variants.values() if isinstance(cli, Commands) else [cli]


STUDIES = {module for module in commands() if module.startswith("studies.") or module.endswith(".demo")}


def option_names(config: type) -> Iterator[str]:
    """Every option of a configuration, those of its groups without the group's name."""
    hints = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        if dataclasses.is_dataclass(hints[field.name]):
            yield from option_names(hints[field.name])
        else:
            yield field.name


def test_one_thing_has_one_name() -> None:
    """``--output`` is where results go, ``--seeds`` a list of seeds, ``--runs`` their number."""
    for command in every_command():
        names = set(option_names(command.config))
        assert not names & {"out", "output_dir", "bs", "seed_list", "n_seeds", "num_seeds"}, command.module
        # multiview.train contrasts the sentences of --loop.batch with each other.
        assert "batch" not in names or command.module == "multiview.train", command.module
        if "seeds" in names:
            assert typing.get_type_hints(command.config)["seeds"] is str, command.module


def test_near_misses(tmp_path: Path) -> None:
    assert did_you_mean("Dpe", ["dep", "const"]) == "did you mean dep? "
    assert did_you_mean("zzz", ["dep", "const"]) == ""
    with pytest.raises(
        UserError, match=r"view 'cosnt': did you mean const\? choose one of bag, const, dep, hash, seq"
    ):
        view_class("cosnt")
    with pytest.raises(UserError, match=r"'TRCE': did you mean TREC\?.*also called SICK-R.*groups: mv, sts"):
        expand_tasks("TRCE")
    with pytest.raises(UserError, match=r"'probin': did you mean probing\?"):
        expand_tasks("probin")
    (tmp_path / "dep-const-laptop").mkdir()
    with pytest.raises(UserError, match=r"no such file or folder; did you mean dep-const-laptop\?$"):
        find_source(str(tmp_path / "dep-const-labtop"))
    with pytest.raises(UserError, match=r"did you mean pydocs\? named ones are pydocs, umbc"):
        open_corpus("pydoc")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(UserError, match=r"did you mean notes\.txt\?"):
        open_corpus(str(tmp_path / "note.txt"))
