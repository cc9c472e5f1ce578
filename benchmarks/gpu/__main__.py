"""Check and measure everything on a GPU, in nine minutes.

    python -m benchmarks.gpu
    python -m benchmarks.gpu --device cpu --quick

First the checks (``checks``): every encoder, engine, loss option and parser against the CPU, and what a
run on a device has to keep. Then the speeds (``speed``). A part that needs a library or a model that is
not here says so; one that fails does not stop the others. Prints a line per part and, as the last line,
everything as JSON. Exit code 1 if a check failed. It needs torch, numpy, h5py, numba and what every command
needs; no data, no network.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

NEEDED = ("torch", "numpy", "h5py", "numba", "safetensors", "tqdm", "pydantic", "tyro")

if __name__ == "__main__":
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        names = " ".join(missing)
        print(f"benchmarks.gpu: missing {names}; pip install {names}", file=sys.stderr)
        sys.exit(2)
    from benchmarks.gpu.command import cli

    sys.exit(cli())
