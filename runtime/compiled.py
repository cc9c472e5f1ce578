"""Functions compiled for this machine's processor, once, by numba; their code is kept on disk.

At the end are tanh and sigmoid for them.

numba's own cache stops a program where it may write to no folder, where the disk is full or a file damaged;
it mixes up processes that compile at once, and does not see changes of other files. Here a folder that may
not be written is still read, a file holds one function for one processor and one combination of types and
says what it was made of, and whatever goes wrong with a file, the function is compiled.
"""

import atexit
import contextlib
import functools
import hashlib
import math
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
from numba.core.caching import IndexDataCacheFile, NullCache, _CacheLocator
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.misc.appdirs import user_cache_dir

from runtime.cli import warn_once
from runtime.surroundings import hold_during_forks, pause_collector

hold_during_forks(global_compiler_lock)
COMPILING = "compiling for this processor, once (up to a minute)"
NOT_STORABLE = (
    "compiled code cannot be kept: NUMBA_CACHE_DIR may name a folder that has room and can be written"
)
OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "no_rewrites": True}
"""Other threads run meanwhile. Python's check for a division by zero would keep loops from being vectorised.
What is left out is for array expressions and for calls from C; it took a tenth of the time."""
PART_OPTIONS = {**OPTIONS, "no_cpython_wrapper": True, "_nrt": False}
"""Parts allocate nothing, so that nothing counts references to their arrays: a quarter faster."""


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Make a function that is compiled, or read from disk, when it is first called with arguments of a type.

    ``options`` are those of ``numba.njit``.
    """
    dispatcher = numba.njit(function, **OPTIONS, **options)
    dispatcher._cache = _CodeFiles(function)
    dispatcher.compile = pause_collector()(dispatcher.compile)  # a tenth of the time
    return dispatcher


def compiled_if_long(function: Callable[..., Any], rows: int = 1000) -> Any:
    """Make a function that Python runs itself until its first arguments have had ``rows`` rows in all.

    A process for a few sentences then neither compiles it nor reads its code. Both give the same bits where
    floats are only added and compared.
    """
    dispatcher, left = compiled(function), rows

    @functools.wraps(function)
    def either(*args: Any) -> Any:
        nonlocal left
        if left >= 0:
            left -= len(args[0])
        if left < 0:
            return dispatcher(*args)
        with np.errstate(all="ignore"):  # compiled code does not warn either
            return function(*args)

    either.compiled = dispatcher  # type: ignore[attr-defined]
    return either


def compiled_part(function: Callable[..., Any], **options: Any) -> Any:
    """Make a function that compiled ones call, too; it is kept as a part of each."""
    return numba.extending.register_jitable(**PART_OPTIONS, **options)(function)


class _CodeFiles(NullCache):  # type: ignore[misc]
    """The code of a function on disk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def load_overload(self, signature: Any, target: Any) -> CompileResult | None:
        """Read the code for arguments of these types; None if it is to be compiled."""
        target.refresh()
        for folder in _code_folders(self.function):
            with contextlib.suppress(Exception):  # none here, or a damaged one
                name = self._name(signature, target.codegen())
                made_of, code = IndexDataCacheFile(str(folder), "", "")._load_data(name)
                if made_of == self._ingredients:
                    return CompileResult._rebuild(target, *code)
        # Of several workers the first speaks.
        if multiprocessing.current_process().name.rpartition("-")[2] in ("MainProcess", "1"):
            _say(COMPILING)
        return None

    def save_overload(self, signature: Any, result: CompileResult) -> None:
        """Keep the code in the first folder that takes it, or in a temporary one."""
        if result.library.has_dynamic_globals:  # addresses of this process
            return
        name = self._name(signature, result.library.codegen)
        for folder in (*_code_folders(self.function), None):
            with contextlib.suppress(Exception):  # no room, or no right to write
                folder = folder or _temporary_folder()
                folder.mkdir(parents=True, exist_ok=True)
                IndexDataCacheFile(str(folder), "", "")._save_data(
                    name, (self._ingredients, result._reduce())
                )
                return

    def _name(self, signature: Any, codegen: Any) -> str:
        versions = numba.__version__, np.__version__, sys.version
        digest = hashlib.sha256(repr((signature, codegen.magic_tuple(), versions)).encode()).hexdigest()
        return f"{self.function.__module__}.{self.function.__name__}.{digest[:16]}.nbc"

    @functools.cached_property
    def _ingredients(self) -> str:
        return repr(sorted(map(repr, _ingredients(self.function))))


def _ingredients(function: Any) -> Iterator[object]:
    """Yield what is compiled into a function: its file, numbers and arrays, and the same of its parts."""
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
    """List where code may lie: where NUMBA_CACHE_DIR says, else beside the source or in the user's caches."""
    source, of_user = Path(function.__code__.co_filename), Path(user_cache_dir("numba", appauthor=False))
    name = _CacheLocator.get_suitable_cache_subpath(str(source))
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR, name)]
    homes = [of_user / name] if of_user.is_absolute() else []  # a relative one is that of a user without home
    return [source.parent / "__pycache__", *homes]


@functools.cache
def _temporary_folder() -> Path:
    """Return a folder for this process and those that it starts."""
    _say(NOT_STORABLE)
    folder = tempfile.mkdtemp(prefix="compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = config.CACHE_DIR = folder
    return Path(folder)


def _say(line: str) -> None:
    with contextlib.suppress(Exception):  # a stream that is closed or full
        warn_once(line)


def tanh(x: Any) -> Any:
    """Compute tanh of one number. Compiled for float32 it is Eigen's rational approximation (error 3e-7).

    That takes 0.15 ns an element (measured, one core) against 2.1 of ``torch.tanh`` and 12 of libm, whose
    calls do not vectorise.
    """
    return math.tanh(x)


@numba.extending.overload(tanh, jit_options=PART_OPTIONS)
def _tanh_of_type(x):  # type: ignore[no-untyped-def]
    if x == numba.types.float32:

        def rational(x):  # type: ignore[no-untyped-def]
            limit = np.float32(7.90531110763549805)  # tanh is 1 in float32 beyond
            x = limit if x > limit else x
            x = -limit if x < -limit else x
            y = x * x
            p = y * np.float32(-2.76076847742355e-16) + np.float32(2.00018790482477e-13)
            p = y * p + np.float32(-8.60467152213735e-11)
            p = y * p + np.float32(5.12229709037114e-08)
            p = y * p + np.float32(1.48572235717979e-05)
            p = y * p + np.float32(6.37261928875436e-04)
            p = y * p + np.float32(4.89352455891786e-03)
            q = y * np.float32(1.19825839466702e-06) + np.float32(1.18534705686654e-04)
            q = y * q + np.float32(2.26843463243900e-03)
            q = y * q + np.float32(4.89352518554385e-03)
            return x * p / q

        return rational
    return lambda x: math.tanh(x)


def sigmoid(x: Any) -> Any:
    """Compute σ(x) = (1 + tanh(x/2)) / 2 of one number, compiled as :func:`tanh`."""
    return 0.5 * math.tanh(0.5 * x) + 0.5


@numba.extending.overload(sigmoid, jit_options=PART_OPTIONS)
def _sigmoid_of_type(x):  # type: ignore[no-untyped-def]
    if x == numba.types.float32:
        return lambda x: np.float32(0.5) + np.float32(0.5) * tanh(np.float32(0.5) * x)
    return lambda x: 0.5 + 0.5 * tanh(0.5 * x)
