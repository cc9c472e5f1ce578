"""Every benchmark at its default size, one after the other: ``make bench``.

    python -m benchmarks.run [NAME ...]

Each runs in its own process, so that its memory and threads do not affect the next, and ends with one line of
JSON. MULTIVIEW_DATA is the folder of the real data.
"""

from __future__ import annotations

import json
import subprocess
import sys

NAMES = ("cache", "parsing", "encoding", "tree_engine", "train_step", "senteval")


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"benchmarks.run: unknown benchmark {unknown[0]} (known: {', '.join(NAMES)})", file=sys.stderr)
        return 2
    last_lines = {}
    failed = 0
    for name in names or NAMES:
        print(f"== {name}", flush=True)
        result = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}"], stdout=subprocess.PIPE, text=True
        )
        print(result.stdout, end="", flush=True)
        failed |= result.returncode
        if result.returncode == 0:
            last_lines[name] = json.loads(result.stdout.strip().splitlines()[-1])
    print(json.dumps(last_lines))
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
