"""How long one sentence takes: the first one of a new process, and one more.

    python -m benchmarks.latency [MODEL] [--peer all-MiniLM-L6-v2] [--rounds 3]

Starts a new Python for every measurement, ours and the peer's (a sentence-transformers model) in turn, and
encodes sentences of about ten words one at a time. The first includes tokenizer and parsers, which are loaded
when they are needed. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

from benchmarks.timing import spread

OURS = """
start = time.perf_counter()
from multiview.model import MultiViewEncoder
model = MultiViewEncoder.load(name)
"""
PEER = """
start = time.perf_counter()
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(name)
"""
MEASURE = """
loaded = time.perf_counter()
model.encode(["The quick brown fox jumps over the lazy dog."])
first = time.perf_counter()
subjects = "fox cat lawyer river child company engine letter storm queen".split()
verbs = "saw followed painted forgot described".split()
texts = [f"The {s} {v} an old man in the garden." for s in subjects for v in verbs]

taken = []
for text in texts:
    begin = time.perf_counter()
    model.encode([text])
    taken.append(time.perf_counter() - begin)
print(json.dumps({
    "load_s": loaded - start, "first_s": first - loaded, "warm_ms": 1000 * statistics.median(taken)
}))
"""


def measure(program: str, name: str) -> dict[str, float]:
    """Seconds to import and load, to the first vector from there, and milliseconds of one more sentence."""
    code = f"import json, statistics, time\nname = {name!r}\n{program}{MEASURE}"
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Run and print."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("model", nargs="?", default="builtin")
    arguments.add_argument("--peer", help="a sentence-transformers model to compare with")
    arguments.add_argument("--rounds", type=int, default=3)
    options = arguments.parse_args()
    programs = {options.model: OURS, **({options.peer: PEER} if options.peer else {})}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
    for _ in range(options.rounds):
        for name, program in programs.items():
            found[name].append(measure(program, name))
    medians = {}
    for name, results in found.items():
        columns = {key: [result[key] for result in results] for key in results[0]}
        print(name)
        print(f"  import and load      {spread(columns['load_s'])} s")
        print(f"  first sentence then  {spread(columns['first_s'])} s")
        print(f"  one more sentence    {spread(columns['warm_ms'], 1)} ms")
        medians[name] = {key: round(statistics.median(values), 3) for key, values in columns.items()}
    print(json.dumps(medians))


if __name__ == "__main__":
    main()
