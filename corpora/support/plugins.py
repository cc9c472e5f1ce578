"""``--plugin MODULE``: a module of one's own that a command imports before anything else.

What it defines registers itself, as views do (docs/add-a-view.md). A model folder never names such a module:
what is imported is the user's choice alone.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from corpora.support.errors import UserError

OPTION = "--plugin"
HELP = f"{OPTION} MODULE imports a module first, here or installed, that registers a view of your own."


def import_plugins(words: Sequence[str]) -> list[str]:
    """Import every module that ``--plugin`` names; return the other words of the command line.

    Raises:
        UserError: no such module.
    """
    rest: list[str] = []
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if option != OPTION:
            rest.append(word)
            continue
        _import(value if equals else next(left, ""))
    return rest


def _import(module: str) -> None:
    if not all(part.isidentifier() for part in module.split(".")) or module.endswith(".py"):
        raise UserError(f"{OPTION} {module}: give the name of a module, as in import statements")
    here = os.getcwd()
    if here not in sys.path:  # a console script's path starts with its own folder
        sys.path.insert(0, here)
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module's own import failed
        raise UserError(f"{OPTION} {module}: no such module in {here} or installed") from None
