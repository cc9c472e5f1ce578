"""Presets and published rows: data files beside a study's code.

``presets.toml`` has a table per preset::

    [paper]
    base = "other"                                                              # a preset it starts from
    needs = "SNLI (nlp.stanford.edu/projects/snli), PPDB 2.0 (paraphrase.org)"  # where its inputs are from
    requires = ["nli", "ppdb"]                                                  # options that give them
    [paper.options]                                                             # what differs from defaults
    backbone = "bert-base-uncased"

Published rows are CSV: a header, then a name and its figures; an empty cell is not published.
"""

from __future__ import annotations

import csv
import inspect
import tomllib
from functools import reduce
from pathlib import Path
from typing import Any, get_type_hints

from corpora.support.errors import UserError


def read_presets(config: type[Any]) -> dict[str, dict[str, Any]]:
    """The options of each preset by field of ``config``, in its types, ``preset`` itself among them."""
    from pydantic import TypeAdapter

    types, tables = get_type_hints(config, include_extras=True), _tables(config)
    found = {}
    for name, table in tables.items():
        options = {**tables.get(table.get("base", ""), {}).get("options", {}), **table.get("options", {})}
        typed = {key: TypeAdapter(types[key]).validate_python(value) for key, value in options.items()}
        found[name] = {"preset": name, **typed}
    return found


def refuse_missing(config: Any) -> None:
    """Refuse a preset whose inputs were not named.

    Raises:
        UserError: the options that are missing, and where what they name is published.
    """
    if (preset := getattr(config, "preset", None)) is None:
        return
    table = _tables(type(config))[preset]
    missing = [
        "--" + option.replace("_", "-")
        for option in table.get("requires", ())
        if not reduce(getattr, option.split("."), config)
    ]
    if missing:
        raise UserError(f"--preset {preset} needs {', '.join(missing)}: {table['needs']}")


def _tables(config: type[Any]) -> dict[str, dict[str, Any]]:
    file = Path(inspect.getfile(config)).with_name("presets.toml")
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def published(file: Path) -> dict[str, dict[str, float]]:
    """Figures of a CSV file by column, by name of the row, which is in the first column."""
    with file.open(encoding="utf-8", newline="") as lines:
        head, *rows = csv.reader(lines)
    return {
        row[0]: {
            column: float(value) for column, value in zip(head[1:], row[1:], strict=True) if value.strip()
        }
        for row in rows
    }
