"""Functions that numba compiles once for this machine's processor; their code is kept on disk.

At the end are tanh, sigmoid and products with few rows for such functions.

numba's own cache stops a program if no folder can be written, the disk is full or a file is damaged; it mixes
up processes that compile at the same time, and does not notice changes in other files. Here a folder that
cannot be written is still read. A file holds one function for one processor and one combination of types,
and says what went into it. Whatever is wrong with a file, the function is compiled again.
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
from runtime.process import hold_during_forks, pause_collector

hold_during_forks(lambda: global_compiler_lock.acquire() is None, global_compiler_lock.release)
COMPILING = "compiling for this processor, once (up to a minute)"
NOT_STORABLE = (
    "compiled code cannot be kept: NUMBA_CACHE_DIR may name a folder that has room and can be written"
)
OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "no_rewrites": True}
"""Other threads may run meanwhile, and no check for a division by zero keeps loops from being vectorised.
Array expressions and calls from C are left out, which took a tenth of the time."""
PART_OPTIONS = {**OPTIONS, "no_cpython_wrapper": True, "_nrt": False}
"""Parts allocate nothing, so that references to arrays need not be counted: a quarter faster."""
FEW_SEQUENCES = 0 if config.DISABLE_JIT else 4
"""A recurrence over so few sequences is compiled with its products: calls of torch took most of its time."""


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """Make a function that is compiled, or read from disk, at its first call; options are numba.njit's.

    With NUMBA_DISABLE_JIT=1 it stays Python's.
    """
    if config.DISABLE_JIT:  # Python runs them all, which does not warn either
        return np.errstate(all="ignore")(function)
    dispatcher = numba.njit(function, **OPTIONS, **options)
    dispatcher._cache = _CodeFiles(function)
    dispatcher.compile = pause_collector()(dispatcher.compile)  # saves a tenth of the time
    return dispatcher


def compiled_if_long(function: Callable[..., Any], rows: int = 1000) -> Any:
    """Make a function that Python runs until its first arguments have had ``rows`` rows in total.

    So few sentences need no compiler. The bits are the same if floats are only added and compared.
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
        with np.errstate(all="ignore"):  # compiled code does not warn either
            return function(*args)

    run.compiled = dispatcher  # type: ignore[attr-defined]
    return run


def compiled_part(function: Callable[..., Any], **options: Any) -> Any:
    """Make a function that compiled functions may call; its code is kept as a part of theirs."""
    return numba.extending.register_jitable(**PART_OPTIONS, **options)(function)


class _CodeFiles(NullCache):  # type: ignore[misc]
    """Keeps the compiled code of a function in files."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def load_overload(self, signature: Any, target: Any) -> CompileResult | None:
        """Read the code for arguments of these types; return None if it has to be compiled."""
        target.refresh()
        for folder in _code_folders(self.function):
            with contextlib.suppress(Exception):  # there is no file here, or a damaged one
                name = self._file_name(signature, target.codegen())
                ingredients, code = IndexDataCacheFile(str(folder), "", "")._load_data(name)
                if ingredients == self._ingredients:
                    return CompileResult._rebuild(target, *code)
        # Of several workers only the first says so.
        if multiprocessing.current_process().name.rpartition("-")[2] in ("MainProcess", "1"):
            _say(COMPILING)
        return None

    def save_overload(self, signature: Any, result: CompileResult) -> None:
        """Write the code to the first folder that takes it, or to a temporary one."""
        if result.library.has_dynamic_globals:  # addresses of this process
            return
        name = self._file_name(signature, result.library.codegen)
        content = (self._ingredients, result._reduce())
        for folder in (*_code_folders(self.function), None):
            with contextlib.suppress(Exception):  # no room, or no right to write
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
        return repr(sorted(map(repr, _ingredients(self.function))))


def _ingredients(function: Any) -> Iterator[object]:
    """Yield what goes into a function: its file, its numbers and arrays, and the same of its parts."""
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
    """List the folders of code: NUMBA_CACHE_DIR, else one beside the source and one in the user's cache."""
    source = Path(function.__code__.co_filename)
    name = _CacheLocator.get_suitable_cache_subpath(str(source))
    if config.CACHE_DIR:
        return [Path(config.CACHE_DIR, name)]
    user_cache = Path(user_cache_dir("numba", appauthor=False))
    folders = [source.parent / "__pycache__", user_cache / name]
    return folders if user_cache.is_absolute() else folders[:1]  # it is relative for a user without a home


@functools.cache
def _temporary_folder() -> Path:
    """Make a folder for this process and those that it starts."""
    _say(NOT_STORABLE)
    folder = tempfile.mkdtemp(prefix="compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = config.CACHE_DIR = folder
    return Path(folder)


def _say(line: str) -> None:
    with contextlib.suppress(Exception):  # a stream that is closed or full
        warn_once(line)


def tanh(x: Any) -> Any:
    """Compute tanh of one number; compiled for float32, by Eigen's rational approximation (error 3e-7).

    This takes 0.15 ns per element (measured on one core), ``torch.tanh`` 2.1, and libm, whose calls do not
    vectorise, 12.
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


@functools.partial(compiled_part, fastmath={"contract"})
def add_products(h, weight, sums, upwards):  # type: ignore[no-untyped-def]
    """Add ``h @ weight`` to ``sums`` [B, M], given few rows ``h`` [B, K] and a contiguous weight [K, M].

    A recurrence that turns round at each step (``upwards``) begins with what is still in cache of the weight.
    """
    for position in range(len(weight)):
        k = position if upwards else len(weight) - 1 - position
        weight_k = weight[k]
        for b in range(len(sums)):
            row, h_k = sums[b], h[b, k]
            for j in range(len(row)):
                row[j] += h_k * weight_k[j]
