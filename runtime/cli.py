"""The base of every command: options from a frozen dataclass, exit codes, a log file, dry runs.

Exit codes: 0 after success; 2 for bad input, a full disk or too little memory (one line on stderr); 1 for a
bug (traceback); 130 after Ctrl-C (one line that says which work is kept). A training handles SIGTERM by
itself (:mod:`runtime.training_loop`).

The range of an option is part of its type, so that no other code checks it::

    @configuration
    class LoopConfig:
        batch: Count = 400
        dropout: Fraction = 0.1

This module is imported fast: pydantic is imported when values are checked, tyro when options are parsed.
"""

import argparse
import contextlib
import dataclasses
import functools
import importlib
import io
import itertools
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

from annotated_types import Ge, Gt, Le, Lt

from runtime import __version__
from runtime.errors import LONE_SURROGATE, UserError, did_you_mean, explain, printable
from runtime.files import lock_folder
from runtime.process import flush_streams, open_streams

LOGGER = "multiview_project"
"""The logger of every package."""
TORCHRUN = "TORCHELASTIC_RUN_ID"
"""The environment variable that torchrun sets in its processes."""
VERSION_HELP = "--version prints the version of this installation."
PLUGIN_HELP = "--plugin MODULE imports a module first, here or installed, that registers a view of your own."

RUNS_COMMAND: ContextVar[bool] = ContextVar("RUNS_COMMAND", default=False)
"""Whether a command is running. A command shows its progress; a function called from Python does not, unless
it is asked to."""
Config = TypeVar("Config")

Count = Annotated[int, Ge(1), Le(2**31 - 1)]
"""A whole number from 1 that fits the 32-bit integers of libraries."""
CountOrNone = Annotated[int, Ge(0), Le(2**31 - 1)]
"""A :data:`Count` or 0, where 0 means none, or no limit."""
Seed = Annotated[int, Ge(0), Le(2**32 - 1)]
"""A seed in the range that every library accepts."""
Share = Annotated[float, Ge(0), Le(1)]
"""A share of a whole, from 0 to 1."""
Epochs = Annotated[int, Ge(1), Le(10_000)]
"""A number of passes over the data."""
Positive = Annotated[float, Gt(0), Le(1e9)]
"""A number above 0, so small that products of such numbers are finite."""
NotNegative = Annotated[float, Ge(0), Le(1e9)]
"""A number from 0 on, so small that products of such numbers are finite."""
Fraction = Annotated[float, Ge(0), Lt(1)]
"""A number from 0 up to, but not including, 1."""


@functools.lru_cache(1000)
def warn_once(line: str) -> None:
    """Log a line, unless this process has done so before."""
    logging.getLogger(LOGGER).warning("%s", line)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def configuration(cls: type[Config]) -> type[Config]:
    """Make a class a frozen keyword-only dataclass that refuses unknown keys, NaN and infinity."""
    cls.__pydantic_config__ = {"extra": "forbid", "allow_inf_nan": False}  # type: ignore[attr-defined]
    return dataclass(frozen=True, kw_only=True)(cls)


def check(config: Config) -> Config:
    """Return the configuration with values of the options' types, such as a Path for a string.

    Raises UserError if a value is of another type or out of its range; the message names the first such
    option.
    """
    from pydantic import ValidationError

    if isinstance(config, type) or not dataclasses.is_dataclass(config):
        raise UserError(f"{config!r:.40}: is no configuration")

    def with_strings(items: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: str(value) if isinstance(value, Path) else value for name, value in items}

    try:
        values = dataclasses.asdict(config, dict_factory=with_strings)  # type: ignore[arg-type]
        checked: Config = _adapter(type(config)).validate_python(values)
        return checked
    except ValidationError as error:
        name, value, requirement = _complaint(error)
        raise UserError(f"--{name.replace('_', '-')} {value}: {requirement}") from None


def config_to_json(config: Any) -> dict[str, Any]:
    """Return a dataclass as JSON values, where paths are strings and tuples lists."""
    value: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config), default=str))
    return value


def config_from_json(config_type: type[Config], values: object, *, where: Path | str) -> Config:
    """Return the configuration of a type from the values of :func:`config_to_json`.

    Raises UserError if a key is unknown or missing, or if a value has another type or is out of range. The
    message names the file ``where``, the key and the value.
    """
    from pydantic import ValidationError

    try:
        config: Config = _adapter(config_type).validate_json(json.dumps(values, default=str), strict=True)
        return config
    except ValidationError as error:
        name, value, requirement = _complaint(error)
        value_text = json.dumps(value, default=str)[:60]
        raise UserError(f"{where}: {name or 'the whole'} {value_text}: {requirement}") from None


_ADAPTERS: dict[Any, Any] = {}


def _adapter(config_type: Any) -> Any:
    """Return pydantic's validator of a type, which takes some 10 ms to make."""
    from pydantic import TypeAdapter

    if config_type not in _ADAPTERS:
        _ADAPTERS[config_type] = TypeAdapter(config_type)
    return _ADAPTERS[config_type]


def _complaint(error: Any) -> tuple[str, Any, str]:
    """Return the first error of pydantic: the path to the value, the value, and its allowed range."""
    complaint = error.errors(include_url=False)[0]
    path = [str(part) for part in complaint["loc"] if not str(part).startswith("constrained-")]
    if complaint["type"] == "unexpected_keyword_argument":
        return ".".join(path), complaint["input"], "unknown key"
    text = complaint["msg"].replace("Input should be ", "must be ")
    text = text.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    text = text.replace("greater than", "above").replace("less than", "below")
    return ".".join(path), complaint["input"], text


@dataclass(frozen=True)
class Estimate:
    """The cost of a command, for ``--dry-run``: an amount of work, its speed, and other costs."""

    facts: dict[str, str]
    """The other costs, and anything else to be shown, by a short name."""
    amount: float | None
    """The amount of work; None if it is unknown."""
    unit: str
    """The unit of the amount, in the plural."""
    per_second: float
    has_estimated_amount: bool = False
    """Whether the amount itself is an estimate."""

    def seconds(self, amount: float) -> timedelta:
        """Return how long an amount of work takes."""
        return timedelta(seconds=round(amount / max(self.per_second, 1e-9)))

    def text(self, config: Any) -> str:
        """Return the resolved configuration and a line per fact, with work and time at the end."""
        if self.amount is None:
            number, time = "an unknown number of", "unknown"
        else:
            number, time = f"{self.amount:,.0f}", f"about {self.seconds(self.amount)}"
            if self.has_estimated_amount:
                number = f"about {number}"
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
    """The options, a :func:`configuration`; its attributes' docstrings are the help texts."""
    main: Callable[[Any], int | None]
    """Does the work, and imports heavy packages when it is called; returns the exit code, or None for 0."""
    module: str
    """The words after ``python -m``, including the subcommand."""
    description: str
    """The first line of ``--help``."""
    folder_of: Callable[[Any], Path | None] = lambda config: None
    """Returns the folder that a configuration writes to, which is locked during the run, unless it is dry."""
    kept_work: str = "what was finished is kept; the same command resumes"
    """The work that is kept after Ctrl-C, as one clause of the message."""
    defaults: Callable[[str], Any] | None = None
    """Maps the name after ``--preset``, empty without one, to a configuration that holds the defaults."""
    plugins: bool = False
    """Whether there is ``--plugin MODULE``, for commands that open models with views of other packages."""

    def __call__(self, args: Sequence[str] | None = None) -> int:
        """Run with ``args`` (by default the process's own) and return the exit code."""
        # Set before torch is imported, so that torch's threads sleep while they wait for each other. Threads
        # that spin may take the core that the last thread needs (runtime/device.py).
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        open_streams()
        outside = RUNS_COMMAND.set(True)
        try:
            code = self._run(list(sys.argv[1:] if args is None else args))
            sys.stdout.flush()  # here, because at the end of the process a full disk has no message
            return code
        except BrokenPipeError:
            return 0
        except KeyboardInterrupt:
            return self._refuse(f"interrupted; {self.kept_work}", 130)
        except Exception as error:
            message = explain(error, kept_work=self.kept_work)
            if message is None:  # a bug
                raise
            return self._refuse(message, 2)
        finally:
            RUNS_COMMAND.reset(outside)
            flush_streams()

    def _run(self, words: list[str]) -> int:
        """Parse the arguments, lock the folder, call ``main``, and return the exit code."""
        if "--version" in words:
            print(f"multiview-embeddings {__version__}")
            return 0
        for word in words:
            if LONE_SURROGATE.search(word):  # stands for a byte that is not UTF-8
                raise UserError(f"{word!r} among the arguments: not UTF-8; rename it")
        try:
            config = self._parse(words)
            config = check(config)
            folder = None if getattr(config, "dry_run", False) else self.folder_of(config)
            with contextlib.nullcontext() if folder is None else lock_folder(folder):
                return int(self.main(config) or 0)
        except SystemExit as stop:  # --help (0) or a usage error (2)
            return int(stop.code or 0)

    def _parse(self, words: list[str]) -> Any:
        """Return the configuration that the arguments describe. Raises UserError if one is wrong."""
        import tyro

        program, description = f"python -m {self.module}", f"{self.description}\n\n{VERSION_HELP}"
        settings: dict[str, Any] = {
            "console_outputs": TORCHRUN not in os.environ or os.environ["RANK"] == "0"
        }
        parser = argparse.ArgumentParser(program, add_help=False, allow_abbrev=False)
        if self.plugins:
            parser.add_argument("--plugin", action="append", default=[], nargs="?", const="")
            options, words = parser.parse_known_args(words)
            description = f"{description}\n\n{PLUGIN_HELP}"
            for module in options.plugin:
                import_plugin(module)
        if self.defaults is not None:
            parser.add_argument("--preset", nargs="?")
            settings["default"] = self.defaults(parser.parse_known_args(words)[0].preset or "")
        rules = tyro.constructors.ConstructorRegistry()
        path_rule = tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="PATH",
            instance_from_str=_named_path,
            is_instance=lambda value: isinstance(value, Path),
            str_from_instance=lambda path: [str(path)],
        )
        rules.primitive_rule(lambda info: path_rule if info.type is Path else None)
        parse = functools.partial(tyro.cli, self.config, prog=program, description=description, **settings)
        with rules:
            try:
                with contextlib.redirect_stderr(io.StringIO()) as captured:
                    config = parse(args=words)
            except SystemExit as stop:
                if not stop.code or not captured.getvalue():  # --help, or not torchrun's first process
                    raise
                raise UserError(_usage_error(words, parse)) from None
            if captured.getvalue():  # a warning
                print(captured.getvalue(), end="", file=sys.stderr)
            return config

    def _refuse(self, message: str, code: int) -> int:
        """Print the message of an error, and return the exit code."""
        with contextlib.suppress(OSError):  # stderr is closed; there is still the exit code
            print(f"python -m {self.module}: {printable(message)}", file=sys.stderr)
        return code


def _printed(parse: Callable[..., Any], words: Sequence[str]) -> str:
    """Return the text that a parser prints for some arguments, in ASCII and without colours."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as text,
        contextlib.redirect_stderr(text),
        contextlib.suppress(SystemExit),
    ):
        parse(args=words)
    return text.getvalue()


def _usage_error(words: Sequence[str], parse: Callable[..., Any]) -> str:
    """Return tyro's message for wrong arguments as one line; an unknown option comes before other errors."""
    options = re.findall(r"--[\w.-]+", _printed(parse, ["--help"]))
    named = itertools.takewhile(lambda word: word != "--", words)
    for option in (word.partition("=")[0] for word in named if word.startswith("--")):
        if option.replace("_", "-") not in options:
            return f"{option}: no such option; {did_you_mean(option, options)}--help lists all"
    rows = itertools.takewhile(lambda row: "---" not in row, _printed(parse, words).splitlines()[2:])
    text = " ".join(row.strip() for row in rows if not row.startswith(" " * 10))  # help texts
    for pattern, replacement in _USAGE_ERRORS:
        text = re.sub(pattern, replacement, text)
    return text


_USAGE_ERRORS = (
    (r"^Error parsing (\S+): invalid literal for int\(\).*: '(.*)'$", r"\1 \2: must be a whole number"),
    (r"^Error parsing (\S+): could not convert string to float: '(.*)'$", r"\1 \2: must be a number"),
    (r"^Error parsing (\S+): no type matching (\S+) .* from \['(.*?)'\].*", r"\1 \3: must be \2"),
    (r"^Error parsing ", ""),
    (r"^Missing value for argument '(.*)'\. Expected .*", r"\1: needs a value; --help explains it"),
    (r"^Missing from [^:]*: (.*)", r"\1: missing; --help explains it"),
)
"""Regular expressions of tyro's messages, and the messages that replace them."""


def _named_path(words: Sequence[str]) -> Path:
    """Return the path that an argument names. Raises UserError for "", which would be the working folder."""
    if not words[0]:
        raise UserError("an empty name of a file or folder among the arguments")
    return Path(words[0])


def with_defaults(config: type[Config], values: Mapping[str, Any]) -> Config:
    """Return a configuration of ``values`` and defaults, for :attr:`Command.defaults`.

    An option that has neither must be given on the command line.
    """
    import tyro

    required_options = {
        field.name: tyro.MISSING
        for field in dataclasses.fields(config)  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    return config(**{**required_options, **values})


def import_plugin(module: str) -> None:
    """Import a module of the user, whose classes register themselves (docs/add-a-view.md).

    A model folder never names such a module, so that only the user decides what is imported. Raises UserError
    if there is no such module, or if its import fails, with the line that failed.
    """
    working_folder = os.getcwd()
    if working_folder not in sys.path:  # for a console script, sys.path starts with the script's folder
        sys.path.insert(0, working_folder)
    try:
        if not all(module.split(".")):
            raise ModuleNotFoundError(name=module)
        importlib.import_module(module)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            raise UserError(f"--plugin {module}: no such module in {working_folder} or installed") from None
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if isinstance(error, SyntaxError) else f" ({frame.filename}, line {frame.lineno})"
        raise UserError(f"--plugin {module}: {type(error).__name__}: {error}{where}") from None


class LogFile(logging.FileHandler):
    """Writes the log file; an error of writing ends the run. The standard library would print a traceback."""

    def handleError(self, record: logging.LogRecord) -> None:  # logging's name
        """Raise the current error, such as that of a full disk, with the name of the file."""
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, self.baseFilename) from None
        super().handleError(record)


@contextlib.contextmanager
def log_to(folder: Path) -> Iterator[logging.Logger]:
    """Append messages of level INFO and above to ``folder/log.txt``, and print them to stderr.

    Progress is shown on stderr, too. At the end of the ``with`` block the logger has its old handlers again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    logger = logging.getLogger(LOGGER)
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    file_handler = LogFile(folder / "log.txt", encoding="utf-8")
    file_handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.handlers[:] = [file_handler, logging.StreamHandler(sys.stderr)]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    outside = RUNS_COMMAND.set(True)
    try:
        yield logger
    finally:
        RUNS_COMMAND.reset(outside)
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate
        file_handler.close()
