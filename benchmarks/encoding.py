"""From raw text to vectors: ours, parsing included, against a sentence-transformers model.

    OMP_NUM_THREADS=1 python -m benchmarks.encoding [MODEL] [--peer all-MiniLM-L6-v2] [--text FILE]

Both encode the same sentences in turn, other sentences in each round. What is measured is the processor
time that they take, so that other jobs on the machine count little. The text has a sentence a line;
without one it is the Wikipedia text of MULTIVIEW_DATA. Ends with one line of JSON.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import time
from pathlib import Path

from tyro.conf import Positional

from benchmarks.timing import spread
from corpora.inputs import read_lines
from corpora.support.cli import Command
from corpora.support.config import Count, configuration
from corpora.support.errors import UserError


@configuration
class EncodingConfig:
    """Options of ``benchmarks.encoding``."""

    model: Positional[str] = "builtin"
    """A model of this package."""
    peer: str = "all-MiniLM-L6-v2"
    """A sentence-transformers model."""
    text: Path | None = None
    """A sentence a line; None is the Wikipedia text of $MULTIVIEW_DATA."""
    sentences: Count = 500
    """Sentences in a round."""
    rounds: Count = 5
    """Rounds that are measured, after one that is not."""


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
    ours, peer = MultiViewEncoder.load(config.model, "cpu"), SentenceTransformer(config.peer, device="cpu")
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
    print(json.dumps({"ratio": round(statistics.median(ratios), 3), "threads": torch.get_num_threads()}))


cli = Command(EncodingConfig, main, "benchmarks.encoding", "Raw text to vectors, beside a peer.")


if __name__ == "__main__":
    sys.exit(cli())
