"""Count the functions to which a command's configuration is passed, and the modules that they are in.

    python -m tools.stops

The tool runs parsing, training and scoring on a few sentences, and watches every function of this project
that gets the configuration, a part of it, or an object that keeps all of it as an argument. A reader of the
code goes from the caller to each such function once. A stretch is a part of this way that stays in one
module; a return is a stretch in a module that was left before.
"""

import dataclasses
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


class ConfigurationTrace:
    """The functions that get a configuration, and the modules that a reader goes through to follow it."""

    def __init__(self, configuration: type) -> None:
        parts = [type(field.default) for field in dataclasses.fields(configuration)]
        self.configuration = configuration
        self.types = (configuration, *(part for part in parts if dataclasses.is_dataclass(part)))
        self.functions: set[tuple[str, str]] = set()
        """Module and name of each function."""
        self.modules: list[str] = []
        """The module of the caller and of the function at each first call, in order."""

    def watch(self, frame: FrameType, event: str, _: Any) -> None:
        """Record the first call of a function that gets the configuration.

        ``sys.setprofile`` calls this method at every call of a function.
        """
        code, module = frame.f_code, _module_of(frame)
        function = (module, code.co_qualname)
        if event != "call" or not module or function in self.functions:
            return
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        gets_configuration = any(self.is_held_by(frame.f_locals.get(name)) for name in parameters)
        is_generated = code.co_name.startswith("__") and "config" not in code.co_varnames
        if gets_configuration and not is_generated:
            self.functions.add(function)
            caller = _module_of(frame.f_back)
            self.modules += [caller, module] if caller else [module]

    def is_held_by(self, argument: object) -> bool:
        """Tell whether an argument is the configuration, a part of it, or an object that keeps it."""
        if isinstance(argument, self.types):
            return True
        is_ours = type(argument).__module__.split(".")[0] in PACKAGES
        attributes = getattr(argument, "__dict__", {}) if is_ours else {}
        return any(isinstance(value, self.configuration) for value in list(attributes.values()))

    def follow(self, command: Callable[[list[str]], object], arguments: list[str]) -> str:
        """Run a command, and return the numbers of stretches, modules, returns and functions as text."""
        threading.setprofile(self.watch)
        sys.setprofile(self.watch)
        try:
            command(arguments)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
        stretches = len(list(itertools.groupby(self.modules)))
        modules = len(set(self.modules))
        returns = stretches - modules
        return (
            f"{stretches} stretches in {modules} modules, {returns} returns; {len(self.functions)} functions"
        )


def _module_of(frame: FrameType | None) -> str:
    """Return the module of a frame, or "" if it is not of this project."""
    module = frame.f_globals.get("__name__", "") if frame else ""
    return module if module.split(".")[0] in PACKAGES else ""


def main() -> None:
    """Trace the configurations of three commands, and print a line for each."""
    from multiview.config import ContinueConfig
    from multiview.train import cli as train
    from parsing.run import ParseConfig
    from parsing.run import cli as parse
    from senteval_runner.run import SentEvalConfig
    from senteval_runner.run import cli as score

    tqdm.monitor_interval = 0
    small = ["--loop.epochs", "1", "--loop.batch", "50", "--name", "small"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        lines = []
        for name, configuration, command, arguments in (
            ("parsing.run", ParseConfig, parse, ["books", "--limit", str(SENTENCES), "--workers", "1"]),
            ("multiview.train", ContinueConfig, train, small),
            ("senteval_runner.run", SentEvalConfig, score, ["runs/models/small", "--tasks", "Binding"]),
        ):
            lines.append(f"{name}: {ConfigurationTrace(configuration).follow(command, arguments)}")
        os.chdir(Path(__file__).parent)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
