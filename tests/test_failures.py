"""The table of failures runs every command, and its inputs can be taken away."""

from __future__ import annotations

from tests.test_commands import commands
from tools.failures import RUNS, rows, without_inputs


def test_every_command_is_run() -> None:
    assert set(RUNS) == set(commands())


def test_the_table_has_every_command() -> None:
    table = rows()
    assert list(table) == commands()
    assert all("| no arguments |" in lines[0] and len(lines) > 2 for lines in table.values())


def test_inputs_are_replaced_where_they_stand_alone() -> None:
    assert without_inputs("trees --output {out}/trees") == "none --output {out}/trees"
    assert without_inputs("wikiqa=wikiqa --nli nli.tsv") == "wikiqa=none --nli none"
