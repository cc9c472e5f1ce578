"""Which of our files does a sentence pass? Those in which a function's body runs, by command.

    python -m tools.files_passed              # ten sentences through parse, train, encode and SentEval

Worker processes count, code that runs while a module is imported does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("corpora", "parsing", "multiview", "senteval_runner", "studies")
TEXT = (
    "The lawyer praised the doctor.\nShe went home.\nIt rained all day.\nNobody saw them.\nWe left.\n\n" * 2
)
COMMANDS = {
    "parsing.run": "text.txt --output trees --workers 1 --device cpu",
    "multiview.train": "--trees trees --output models --loop.batch 4 --encoder.dim 8 --device cpu",
    "multiview.encode": "builtin text.txt --output vectors.npy --device cpu",
    "senteval_runner.run": "bag:random --tasks CR --data data",
}


def watch(record: Path) -> None:
    """Append every file of ours whose functions are called in this process from now on to ``record``."""
    found: set[str] = set()

    def called(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or name in found or not name.startswith(tuple(f"{ROOT}/{p}/" for p in PACKAGES)):
            return
        outer: FrameType | None = frame
        while outer is not None:
            if outer.f_code.co_name == "<module>" and outer.f_globals.get("__name__") != "__main__":
                return  # while a module is imported
            outer = outer.f_back
        found.add(name)
        with open(record, "a") as lines:
            lines.write(f"{Path(name).relative_to(ROOT)}\n")

    threading.setprofile(called)
    sys.setprofile(called)


def main() -> None:
    """Print the files of each command and their number."""
    from tests.fixtures.senteval import write_tasks

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "text.txt").write_text(TEXT)
        write_tasks(folder / "data")
        hook = "import os, pathlib, tools.files_passed as f; f.watch(pathlib.Path(os.environ['RECORD']))\n"
        (folder / "sitecustomize.py").write_text(hook)
        for module, options in COMMANDS.items():
            record = folder / f"{module}.record"
            paths = os.pathsep.join([place, str(ROOT)])
            environment = {**os.environ, "PYTHONPATH": paths, "RECORD": str(record)}
            words = [sys.executable, "-m", module, *options.split()]
            subprocess.run(words, cwd=place, env=environment, check=True, capture_output=True)
            files = sorted(set(record.read_text().split()))
            print(f"{module}: {len(files)}\n  " + "\n  ".join(files))


if __name__ == "__main__":
    main()
