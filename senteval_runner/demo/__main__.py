"""``python -m senteval_runner.demo``: see :mod:`senteval_runner.demo.pipeline`."""

from __future__ import annotations

import sys

from senteval_runner.demo.pipeline import cli

__all__ = ["cli"]

if __name__ == "__main__":
    sys.exit(cli())
