"""What every command shares: options from a frozen dataclass, exit codes, a log file, dry runs.

Exit codes: 0 done; 2 bad input, a full disk or too little memory (one line on stderr); 1 a bug (traceback);
130 stopped by Ctrl-C (one line that says what is kept).

A range is part of an option's type, and nothing else checks it::

    @configuration
    class LoopConfig:
        batch: Count = 400
        dropout: Fraction = 0.1

Imports nothing heavy: pydantic is imported when something is checked, tyro when options are parsed.
"""

import argparse
import contextlib
import dataclasses
import functools
import importlib
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

from annotated_types import Ge, Gt, Le, Lt

from runtime import __version__
from runtime.errors import LONE_SURROGATE, UserError, explain, printable
from runtime.files import lock_folder
from runtime.surroundings import flush_streams, open_streams

LOGGER = "multiview_project"
"""The logger of every package."""
TORCHRUN = "TORCHELASTIC_RUN_ID"
"""Set in the processes of torchrun."""
VERSION_HELP = "--version prints the version of this installation."
PLUGIN_HELP = "--plugin MODULE imports a module first, here or installed, that registers a view of your own."

Config = TypeVar("Config")

Count = Annotated[int, Ge(1), Le(2**31 - 1)]
"""A number of things, at least 1, that libraries can hold."""
CountOrNone = Annotated[int, Ge(0), Le(2**31 - 1)]
"""A number of things; 0 means none, or no limit."""
Seed = Annotated[int, Ge(0), Le(2**32 - 1)]
"""A seed that every library takes."""
Share = Annotated[float, Ge(0), Le(1)]
"""From 0 to 1."""
Epochs = Annotated[int, Ge(1), Le(10_000)]
"""Passes over the data, which are counted before the first."""
Positive = Annotated[float, Gt(0), Le(1e9)]
"""A number above 0 whose products stay finite."""
NotNegative = Annotated[float, Ge(0), Le(1e9)]
"""A number that is 0 or above, as :data:`Positive`."""
Fraction = Annotated[float, Ge(0), Lt(1)]
"""From 0 up to, but not including, 1."""


@functools.lru_cache(1000)
def warn_once(line: str) -> None:
    """Log a line, unless this process has done so before."""
    logging.getLogger(LOGGER).warning("%s", line)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def configuration(cls: type[Config]) -> type[Config]:
    """Make a frozen keyword-only dataclass that refuses unknown keys and numbers that are not finite."""
    cls.__pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(cls)


def check(config: Any) -> None:
    """Raise UserError for the first value out of its type's range, by its name on the command line."""
    from pydantic import TypeAdapter, ValidationError

    try:
        TypeAdapter(type(config)).validate_python(dataclasses.asdict(config))
    except ValidationError as error:
        name, value, requirement = _complaint(error)
        raise UserError(f"--{name.replace('_', '-')} {value}: {requirement}") from None


def config_to_json(config: Any) -> dict[str, Any]:
    """Turn a dataclass into plain JSON values (paths become strings, tuples lists)."""
    value: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config), default=str))
    return value


def config_from_json(config_type: type[Config], values: object, *, where: Path | str) -> Config:
    """Rebuild a configuration from :func:`config_to_json`'s output.

    A key that is unknown or missing, or a value of another type or out of its range, raises UserError, which
    names the file ``where``, key and value.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(config_type).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        name, value, requirement = _complaint(error)
        shown = json.dumps(value, default=str)[:60]
        raise UserError(f"{where}: {name or 'the whole'} {shown}: {requirement}") from None


def _complaint(error: Any) -> tuple[str, Any, str]:
    """Return the first of pydantic's complaints: the path to a value, the value, what it must be."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "unexpected_keyword_argument":
        return ".".join(map(str, first["loc"])), first["input"], "unknown key"
    text = first["msg"].replace("Input should be ", "must be ")
    text = text.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    text = text.replace("greater than", "above").replace("less than", "below")
    names = [str(part) for part in first["loc"] if not str(part).startswith("constrained-")]
    return ".".join(names), first["input"], text


@dataclass(frozen=True)
class Estimate:
    """What a command would take, for ``--dry-run``: an amount of work, how fast it is done, other costs."""

    facts: dict[str, str]
    """Further lines, by a short name."""
    amount: float | None
    """None if it is unknown."""
    unit: str
    """What the amount counts, in the plural."""
    per_second: float
    has_estimated_amount: bool = False
    """Whether the amount is an estimate, too."""

    def seconds(self, amount: float) -> timedelta:
        """Return how long an amount of work takes."""
        return timedelta(seconds=round(amount / max(self.per_second, 1e-9)))

    def text(self, config: Any) -> str:
        """Show the resolved configuration and a line per fact, with work and time at the end."""
        number, time = "an unknown number of", "unknown"
        if self.amount is not None:
            number, time = (
                f"{'about ' * self.has_estimated_amount}{self.amount:,.0f}",
                f"about {self.seconds(self.amount)}",
            )
        work = f"{number} {self.unit} at {self.per_second:,.3g} a second"
        rows = {**self.facts, "work": work, "time": time}
        lines = [f"{name:<12} {value}" for name, value in rows.items()]
        return "\n".join([json.dumps(config_to_json(config), indent=2, sort_keys=True), *lines])


@dataclass(frozen=True)
class Command:
    """A command: calling it parses the options, runs it, and returns the exit code.

    Every module that runs as ``python -m`` has one named ``cli``; its console script calls the same object::

        cli = Command(ParseConfig, main, "parsing.run", "Parse a corpus into a cache of trees.")
    """

    config: type[Any]
    """Frozen keyword-only dataclass; attribute docstrings are help texts, annotated ranges are checked."""
    main: Callable[[Any], int | None]
    """The work; returns an exit code, or None for 0. Imports heavy packages itself."""
    module: str
    """The words after ``python -m``, including the subcommand."""
    description: str
    """Shown by ``--help``."""
    owns: Callable[[Any], Path | None] = lambda config: None
    """The folder that a configuration writes to. One run at a time may own it; a dry run does not."""
    kept_work: str = "what was finished is kept; the same command resumes"
    """What survives Ctrl-C, as one clause of the message."""
    defaults: Callable[[str], Any] | None = None
    """Maps the name after ``--preset``, empty without one, to a configuration that holds the defaults."""
    plugins: bool = False
    """Takes ``--plugin MODULE``: the command opens models, whose views may be of another package."""

    def __call__(self, args: Sequence[str] | None = None) -> int:
        """Run with ``args`` (by default the process's own) and return the exit code."""
        # Before torch is imported: its threads sleep while they wait. Spinning, they take the core that the
        # thread they wait for needs (runtime/device.py).
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        open_streams()
        try:
            code = self._run(list(sys.argv[1:] if args is None else args))
            sys.stdout.flush()  # now: at the end of the process a full disk has no message
            return code
        except BrokenPipeError:
            return 0
        except KeyboardInterrupt:
            return self._refuse(f"interrupted; {self.kept_work}", 130)
        except Exception as error:
            if (message := explain(error, kept_work=self.kept_work)) is None:  # a bug
                raise
            return self._refuse(message, 2)
        finally:
            flush_streams()

    def _run(self, words: list[str]) -> int:
        if "--version" in words:
            print(f"multiview-embeddings {__version__}")
            return 0
        for word in words:
            if LONE_SURROGATE.search(word):  # how Python passes on bytes that are not UTF-8
                raise UserError(f"{word!r} among the arguments: not UTF-8; rename it")
        try:
            config = self._parse(words)
            check(config)
            folder = None if getattr(config, "dry_run", False) else self.owns(config)
            with contextlib.nullcontext() if folder is None else lock_folder(folder):
                return int(self.main(config) or 0)
        except SystemExit as stop:  # --help (0) or a usage error (2)
            return int(stop.code or 0)

    def _parse(self, words: list[str]) -> Any:
        import tyro

        prog, about = f"python -m {self.module}", f"{self.description}\n\n{VERSION_HELP}"
        settings: dict[str, Any] = {
            "console_outputs": TORCHRUN not in os.environ or os.environ["RANK"] == "0"
        }
        parser = argparse.ArgumentParser(prog, add_help=False, allow_abbrev=False)
        if self.plugins:
            parser.add_argument("--plugin", action="append", default=[])
            options, words = parser.parse_known_args(words)
            about = f"{about}\n\n{PLUGIN_HELP}"
            for module in options.plugin:
                import_plugin(module)
        if self.defaults is not None:
            parser.add_argument("--preset", nargs="?")
            settings["default"] = self.defaults(parser.parse_known_args(words)[0].preset or "")
        rules = tyro.constructors.ConstructorRegistry()
        named = tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="PATH",
            instance_from_str=_named_path,
            is_instance=lambda value: isinstance(value, Path),
            str_from_instance=lambda path: [str(path)],
        )
        rules.primitive_rule(lambda info: named if info.type is Path else None)
        with rules:
            return tyro.cli(self.config, prog=prog, description=about, args=words, **settings)

    def _refuse(self, message: str, code: int) -> int:
        if TORCHRUN in os.environ:  # where all processes fail alike, and one says so
            from torch.distributed import TCPStore  # type: ignore[attr-defined]  # as its documentation has it

            store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
            if store.add(message, 1) > 1:
                return code
        with contextlib.suppress(OSError):  # the exit code says it too
            print(f"python -m {self.module}: {printable(message)}", file=sys.stderr)
        return code


def _named_path(words: Sequence[str]) -> Path:
    """Return the path that a word of a command line names; an empty one would be the working folder."""
    if not words[0]:
        raise UserError("an empty name of a file or folder among the arguments")
    return Path(words[0])


def with_defaults(config: type[Config], values: Mapping[str, Any]) -> Config:
    """Return what holds where a command line says nothing: these values, and the defaults."""
    import tyro

    required = {
        field.name: tyro.MISSING
        for field in dataclasses.fields(config)  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    return config(**{**required, **values})


def import_plugin(module: str) -> None:
    """Import a module of the user's own; what it defines registers itself (docs/add-a-view.md).

    A model folder never names such a module: what is imported is the user's choice alone. If there is none,
    or it fails, UserError names its last line and place.
    """
    here = os.getcwd()
    if here not in sys.path:  # a console script's path starts with its own folder
        sys.path.insert(0, here)
    try:
        if not all(module.split(".")):
            raise ModuleNotFoundError(name=module)
        importlib.import_module(module)
    except UserError:
        raise
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            raise UserError(f"--plugin {module}: no such module in {here} or installed") from None
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = "" if isinstance(error, SyntaxError) else f" ({last.filename}, line {last.lineno})"
        raise UserError(f"--plugin {module}: {type(error).__name__}: {error}{place}") from None


def log_to(folder: Path, name: str = "log.txt") -> logging.Logger:
    """Send INFO and above to ``folder/name`` (appended) and to stderr; return the logger."""
    folder.mkdir(parents=True, exist_ok=True)
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    to_file = logging.FileHandler(folder / name, encoding="utf-8")
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(to_file)
    logger.addHandler(logging.StreamHandler(sys.stderr))
    return logger
