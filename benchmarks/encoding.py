"""From raw text to vectors: ours, parsing included, against a sentence-transformers model.

    OMP_NUM_THREADS=1 python -m benchmarks.encoding [MODEL] [--peer all-MiniLM-L6-v2] [--text FILE]

Both encode the same sentences in turn, other sentences in each round. What is measured is the processor
time that they take, so that other jobs on the machine count little. The text has a sentence a line;
without one it is the Wikipedia text of MULTIVIEW_DATA. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import time
from pathlib import Path

from benchmarks.timing import spread
from corpora.inputs import read_lines


def main() -> None:
    """Run and print."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("model", nargs="?", default="builtin")
    arguments.add_argument("--peer", default="all-MiniLM-L6-v2")
    arguments.add_argument("--text", type=Path)
    arguments.add_argument("--sentences", type=int, default=500)
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    text = options.text
    if text is None:
        if "MULTIVIEW_DATA" not in os.environ:
            raise SystemExit("benchmarks.encoding: give --text, or MULTIVIEW_DATA")
        text = Path(os.environ["MULTIVIEW_DATA"], "corpora", "wikipedia.txt.xz")
    # Imported late: both take seconds, and --help should not.
    import torch
    from sentence_transformers import SentenceTransformer

    from multiview.model import MultiViewEncoder

    known = [line.text.strip() for line in read_lines(text) if line.text.strip()]
    drawn = random.Random(0).sample(known, (options.rounds + 1) * options.sentences)
    ours, peer = MultiViewEncoder.load(options.model, "cpu"), SentenceTransformer(options.peer, device="cpu")
    seconds: dict[str, list[float]] = {options.model: [], options.peer: []}
    for turn in range(options.rounds + 1):
        chosen = drawn[turn * options.sentences : (turn + 1) * options.sentences]
        for name, model in ((options.model, ours), (options.peer, peer)):
            start = time.process_time()
            model.encode(chosen, show_progress_bar=False)
            if turn:  # the first round loads the parsers and warms both up
                seconds[name].append(time.process_time() - start)
    for name, taken in seconds.items():
        print(f"{name:20} {spread([options.sentences / s for s in taken], 0)} sentences per second of a core")
    ratios = [b / a for a, b in zip(*seconds.values(), strict=True)]
    print(f"{'ratio':20} {spread(ratios)}")
    print(json.dumps({"ratio": round(statistics.median(ratios), 3), "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
