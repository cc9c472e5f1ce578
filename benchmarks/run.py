"""Every benchmark at its default size, one after the other: ``make bench``.

    python -m benchmarks.run [NAME ...]

Each runs in its own process, so that its memory and threads do not affect the next, and ends with one line of
JSON. MULTIVIEW_DATA is the folder of the real data.
"""

from __future__ import annotations

import subprocess
import sys

NAMES = ("parsing", "encoding", "tree_engine", "senteval", "structure")


def main(names: list[str]) -> int:
    """Run those named, or all; 1 if one failed."""
    failed = []
    for name in names or NAMES:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"benchmarks.run: failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
