"""A long command made of ordinary commands, each printed before it runs."""

from __future__ import annotations

import subprocess
import sys
import time

from corpora.support.errors import UserError


def run_step(title: str, module: str, *arguments: object) -> float:
    """Run ``python -m MODULE ARGUMENTS`` as a user would type it; return its seconds.

    Raises:
        UserError: the step refused its input (it has said why).
        RuntimeError: the step failed.
    """
    words = [str(argument) for argument in arguments]
    print(f"\n== {title}\n$ python -m {module} {' '.join(words)}", flush=True)
    began = time.monotonic()
    code = subprocess.run([sys.executable, "-m", module, *words], check=False).returncode
    if code == 130:
        raise KeyboardInterrupt
    if code == 2:
        raise UserError(f"stopped at: python -m {module} {' '.join(words)}")
    if code:
        raise RuntimeError(f"python -m {module} ended with exit code {code}")
    return time.monotonic() - began
