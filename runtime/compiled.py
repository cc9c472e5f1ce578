"""Functions that numba compiles once for this machine's processor; their code is kept on disk.

numba's own ``njit(cache=True)`` is not used. Its speed is similar: the very first vector took as long, the
first vector of a later process 8 % longer (processor time). But it has these defects:

- It would run old code after a change. It notices a change of the file of a function, but not of the other
  files whose numbers, tables and parts are compiled into the function, such as the rules of roles.
- It reads no code from a folder that it cannot write, and raises an error on import if it can write none: an
  image with a read-only root (docs/serving.md) would not start.
- A full disk or a damaged file would end the program with a traceback, at each start.
- Of several workers that start at once on new code, one may store its code under the key of another's.

Therefore :class:`_CodeFiles` replaces the ``_cache`` of a dispatcher. A file holds one function for one
processor and one combination of types, and says what went into it. If anything is wrong with a file, the
function is compiled again. The parts of numba that this needs are not public, and a new version may change
them: ``NullCache`` (the methods that a dispatcher calls), ``IndexDataCacheFile`` (writes a pickle
atomically), ``CompileResult._reduce`` and ``_rebuild`` (turn a result into picklable values and back), and
the option ``_nrt``.
"""

import atexit
import contextlib
import functools
import hashlib
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from inspect import isfunction
from pathlib import Path
from typing import Any

import numba
import numba.extending
import numpy as np
from numba.core import config
from numba.core.caching import IndexDataCacheFile, NullCache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.misc.appdirs import user_cache_dir

from runtime.cli import warn_once
from runtime.process import hold_during_forks, pause_collector

hold_during_forks(lambda: global_compiler_lock.acquire() is None, global_compiler_lock.release)
COMPILING = "compiling for this processor, once (up to a minute)"
NOT_STORABLE = (
    "compiled code cannot be kept: NUMBA_CACHE_DIR may name a folder that has room and can be written"
)
OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "no_rewrites": True}
"""Options of all functions. Other threads run during a call. Loops have no checks for divisions by zero,
which would keep them from being vectorised. Support for array expressions and for calls from C is left out,
because it took a tenth of the time to compile."""
PART_OPTIONS = {**OPTIONS, "no_cpython_wrapper": True, "_nrt": False}
"""Options of parts. Parts allocate nothing, so references to arrays need not be counted, which shortens their
compilation to three quarters of the time."""


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Return the function, compiled or read from disk at its first call; options are those of numba.njit.

    With NUMBA_DISABLE_JIT=1 Python runs it.
    """
    if config.DISABLE_JIT:  # compiled code does not warn, so Python must not either
        return np.errstate(all="ignore")(function)
    dispatcher = numba.njit(function, **OPTIONS, **options)
    dispatcher._cache = _CodeFiles(function)
    dispatcher.compile = pause_collector()(dispatcher.compile)  # a tenth faster
    return dispatcher


def compiled_if_long(function: Callable[..., Any], rows: int = 1000) -> Any:
    """Return the function, which Python runs until its first arguments have had ``rows`` rows in total.

    Thus a few sentences need not wait for the compiler. Python and compiled code give the same bits if floats
    are only added and compared.
    """
    dispatcher = compiled(function)
    remaining_rows = rows

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        nonlocal remaining_rows
        if remaining_rows >= 0:
            remaining_rows -= len(args[0])
        if remaining_rows < 0:
            return dispatcher(*args)
        with np.errstate(all="ignore"):  # because compiled code does not warn either
            return function(*args)

    run.compiled = dispatcher  # type: ignore[attr-defined]
    return run


def compiled_part(function: Callable[..., Any], **options: Any) -> Any:
    """Return the function for calls by compiled functions, whose stored code has a copy of it."""
    return numba.extending.register_jitable(**PART_OPTIONS, **options)(function)


class _CodeFiles(NullCache):  # type: ignore[misc]
    """The cache of one dispatcher: it stores the compiled code of its function in files."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def load_overload(self, signature: Any, target: Any) -> CompileResult | None:
        """Return the stored code for arguments of these types, or None if it has to be compiled."""
        target.refresh()
        for folder in _code_folders(self.function):
            with contextlib.suppress(Exception):  # there is no file in this folder, or a damaged one
                name = self._file_name(signature, target.codegen())
                ingredients, code = IndexDataCacheFile(str(folder), "", "")._load_data(name)
                if ingredients == self._ingredients:
                    return CompileResult._rebuild(target, *code)
        # Of several workers only the first one prints the line.
        if multiprocessing.current_process().name.rpartition("-")[2] in ("MainProcess", "1"):
            _say(COMPILING)
        return None

    def save_overload(self, signature: Any, result: CompileResult) -> None:
        """Write the code to the first folder that can be written, or to a temporary one."""
        if result.library.has_dynamic_globals:  # it has addresses of this process
            return
        name = self._file_name(signature, result.library.codegen)
        content = (self._ingredients, result._reduce())
        for folder in (*_code_folders(self.function), None):
            with contextlib.suppress(Exception):  # the disk is full, or the folder cannot be written
                folder = folder or _temporary_folder()
                folder.mkdir(parents=True, exist_ok=True)
                IndexDataCacheFile(str(folder), "", "")._save_data(name, content)
                return

    def _file_name(self, signature: Any, codegen: Any) -> str:
        versions = numba.__version__, np.__version__, sys.version
        digest = hashlib.sha256(repr((signature, codegen.magic_tuple(), versions)).encode()).hexdigest()
        return f"{self.function.__module__}.{self.function.__name__}.{digest[:16]}.nbc"

    @functools.cached_property
    def _ingredients(self) -> str:
        """Everything that decides the code; stored code with other ingredients is out of date."""
        return repr(sorted(map(repr, _ingredients(self.function))))


def _ingredients(function: Any) -> Iterator[object]:
    """Yield what decides a function's code: its file, its globals, and those of the parts that it calls."""
    yield _file_digest(function.__code__.co_filename)
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        value = getattr(value, "py_func", value)
        if isfunction(value) and value is not function:
            yield from _ingredients(value)
        elif isinstance(value, int | float | tuple | np.generic):
            yield name, value
        elif isinstance(value, np.ndarray):
            yield name, value.tobytes()


@functools.cache
def _file_digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _code_folders(function: Any) -> list[Path]:
    """Return the folders of stored code: NUMBA_CACHE_DIR, or else one by the source and one of the user."""
    source = Path(function.__code__.co_filename)
    name = f"{source.parent.name}_{hashlib.sha256(bytes(source.parent.absolute())).hexdigest()[:16]}"
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR, name)]
    user_cache = Path(user_cache_dir("numba", appauthor=False))
    folders = [source.parent / "__pycache__", user_cache / name]
    return folders if user_cache.is_absolute() else folders[:1]  # relative if the user has no home


@functools.cache
def _temporary_folder() -> Path:
    """Make a folder for the code of this process and of those that it starts."""
    _say(NOT_STORABLE)
    folder = tempfile.mkdtemp(prefix="compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = config.CACHE_DIR = folder
    return Path(folder)


def _say(line: str) -> None:
    with contextlib.suppress(Exception):  # a stream that is closed or full
        warn_once(line)
