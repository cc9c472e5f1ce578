"""Every command ends by naming the next one, and names that nearly exist are answered by those that do."""

from __future__ import annotations

import dataclasses
import importlib
import re
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
import tyro

from corpora.registry import open_corpus
from corpora.senteval.tasks import ALIASES, canonical_task
from corpora.support.cli import NEXT, Command, Commands, command_line
from corpora.support.config import configuration
from corpora.support.errors import UserError, did_you_mean
from multiview.encoders.registry import view_class
from senteval_runner.running import expand_tasks
from senteval_runner.vectors.sources import find_source
from tests.test_commands import commands

ARGUMENTS = {
    "parsing.convert dep": "m.pt folder",
    "parsing.convert const": "m.pt folder",
    "parsing.export_trees": "cache --conllu x.conllu",
    "parsing.import_trees": "--output cache --conllu x.conllu",
    "parsing.info": "cache",
    "parsing.run": "corpus.txt --views dep",
    "parsing.score dep": "builtin x.conllu",
    "parsing.score const": "builtin x.ptb",
    "parsing.show": "cache",
    "parsing.train both": "--train-dep a --train-const b --dev-dep c --dev-const d --output m",
    "parsing.train dep": "--train x.conllu --dev y.conllu --output m",
    "parsing.train const": "--train x.ptb --dev y.ptb --output m",
    "parsing.verify": "cache",
    "multiview.compact": "model --output small",
    "multiview.encode": "model text.txt",
    "multiview.explain": "model a b",
    "multiview.export": "model",
    "multiview.info": "model",
    "multiview.search": "model text.txt query",
    "senteval_runner.run": "model",
    "senteval_runner.teach": "model --output teacher",
    "studies.analogies run": "model",
    "studies.burt": "--output m",
    "studies.multitask": "--output m",
}
"""What a command cannot do without; the others need nothing."""


def every_command() -> Iterator[Command]:
    for module in commands():
        home = f"{module}.__main__" if module in STUDIES else module
        cli = importlib.import_module(home).cli
        yield from cli.variants.values() if isinstance(cli, Commands) else [cli]


STUDIES = {module for module in commands() if module.startswith("studies.") or module.endswith(".demo")}


def test_every_command_names_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    """And what it names exists, with its options."""
    named: dict[str, str] = {}
    for command in every_command():
        assert command.then is not None, command.module
        config = tyro.cli(command.config, args=ARGUMENTS.get(command.module, "").split())
        named |= dict(re.findall(r"python -m ([\w.]+)(.*)", command.then(config)))
    assert {"multiview.train", "senteval_runner.run", "parsing.run", "multiview.search"} <= named.keys()
    assert named.keys() <= set(commands())
    for module, rest in named.items():
        home = f"{module}.__main__" if module in STUDIES else module
        importlib.import_module(home).cli(
            [*rest.split()[:1], "--help"] if "analogies" in module else ["--help"]
        )
        text = capsys.readouterr().out
        assert all(option in text for option in re.findall(r"--[a-z][\w.-]*", rest)), (module, rest)


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


@configuration
class Options:
    """Options of a command."""

    output: Path = Path("out put")
    """Where to write."""
    dry_run: bool = False
    """Write nothing."""


def test_the_next_command_is_on_standard_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cli = Command(
        Options,
        lambda config: int(config.output == Path("bad")),
        *("p", "d"),
        then=lambda config: command_line("multiview.train", "--trees", config.output),
    )
    assert cli([]) == 0
    shown = capsys.readouterr()
    assert shown.err == "next: python -m multiview.train --trees 'out put'\n" and shown.out == ""
    cli(["--dry-run"])
    assert capsys.readouterr().err == "next: the same command without --dry-run\n"
    assert cli(["--output", "bad"]) == 1
    assert "next" not in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["/venv/bin/parsing-run"])
    cli([])
    assert capsys.readouterr().err == "next: multiview-train --trees 'out put'\n"
    monkeypatch.setenv(NEXT, "0")
    cli([])
    assert capsys.readouterr().err == ""


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


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(alias: str) -> None:
    assert canonical_task(alias) == canonical_task(alias.lower().replace("-", "_")) == ALIASES[alias]
