"""Count how far a command's configuration travels: functions that get it, and the modules they are in.

    python -m tools.stops

Runs parsing, training and scoring on a few sentences, each once, and watches every call of this project
that gets the configuration or a part of it as an argument. Who reads along goes from the caller to such a
function, once for each. A *stay* is an unbroken stretch of this way in one module, a *room* is a module, a
*return* is a stay in a room that was left before.
"""

import dataclasses
import inspect
import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tqdm import tqdm

PACKAGES = ("runtime", "corpora", "parsing", "multiview", "senteval_runner")
SENTENCES = 400


class Walk:
    """The modules and functions through which a configuration passes, in the order of first calls."""

    def __init__(self, configuration: type) -> None:
        parts = [type(field.default) for field in dataclasses.fields(configuration)]
        self.types = (configuration, *(part for part in parts if dataclasses.is_dataclass(part)))
        self.functions: set[tuple[str, str]] = set()
        self.way: list[str] = []

    def watch(self, frame: FrameType, event: str, _: Any) -> None:
        """Remember a call that gets the configuration; a profile function of ``sys.setprofile``."""
        module = frame.f_globals.get("__name__", "")
        if event != "call" or module.split(".")[0] not in PACKAGES:
            return
        code = frame.f_code
        parameters = code.co_argcount + code.co_kwonlyargcount
        arguments = (frame.f_locals.get(name) for name in code.co_varnames[:parameters])
        if code.co_name != "__init__" or "config" in code.co_varnames:
            function = (module, code.co_qualname)
            if function not in self.functions and any(isinstance(each, self.types) for each in arguments):
                self.functions.add(function)
                caller = frame.f_back.f_globals.get("__name__", "") if frame.f_back else ""
                self.way += [caller, module] if caller.split(".")[0] in PACKAGES else [module]

    def follow(self, command: Callable[[list[str]], object], arguments: list[str]) -> str:
        """Run a command and say how many stays, rooms, returns and functions it took."""
        threading.setprofile(self.watch)
        sys.setprofile(self.watch)
        try:
            command(arguments)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
        stays = sum(1 for _ in itertools.groupby(self.way))
        rooms = len(set(self.way))
        return f"{stays} stays in {rooms} rooms, {stays - rooms} returns; {len(self.functions)} functions"


def main() -> None:
    """Follow the three commands' configurations, and print a line each."""
    from multiview.config import TrainConfig
    from multiview.train import cli as train
    from parsing.run import ParseConfig
    from parsing.run import cli as parse
    from senteval_runner.run import SentEvalConfig
    from senteval_runner.run import cli as score

    tqdm.monitor_interval = 0
    small = ["--loop.epochs", "1", "--loop.batch", "50", "--name", "small"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        walks = {
            "parsing.run": (ParseConfig, parse, ["books", "--limit", str(SENTENCES), "--workers", "1"]),
            "multiview.train": (TrainConfig, train, small),
            "senteval_runner.run": (SentEvalConfig, score, ["runs/models/small", "--tasks", "Binding"]),
        }
        lines = []
        for name, (configuration, command, arguments) in walks.items():
            lines.append(f"{name}: {Walk(configuration).follow(command, arguments)}")
        os.chdir(Path(inspect.getfile(main)).parent)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
