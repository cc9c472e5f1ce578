"""Time the encoding of raw text, parsing included, in comparison with a sentence-transformers model.

    OMP_NUM_THREADS=1 python -m benchmarks.encoding [MODEL] [--peer all-MiniLM-L6-v2] [--text FILE]

Rate: both models encode the same sentences in turns; each round has other sentences. Processor time is
measured, because it depends little on other jobs of the machine. The text has a sentence per line; by default
it is the Wikipedia text of MULTIVIEW_DATA.

Latency: in turns, each model is loaded in a new Python process and encodes sentences of about ten words, one
at a time. The time to the first vector begins before Python starts, so that it includes all imports, the
tokenizer, the parsers and compiled loops. The processor time of the process until then is printed too.

The last line is JSON.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

from tyro.conf import Positional

from benchmarks import ratios, spread, time_in_turns
from corpora.inputs import read_lines
from runtime.cli import Command, Count, configuration
from runtime.errors import UserError
from tools import data_folder
from tools.pair_sets import MINILM, find_peer

SENTENCES = 500
"""Number of sentences of a round."""
STARTS = 3
"""Number of processes for each model in which the latency is measured."""
LOAD = {
    "ours": "from multiview.model import MultiViewEncoder as Model",
    "peer": "from sentence_transformers import SentenceTransformer as Model",
}
LATENCY = """
import json, statistics, sys, time
{load}
model = getattr(Model, "load", Model)(sys.argv[1])
model.encode(["The quick brown fox jumps over the lazy dog."])
first = time.time() - float(sys.argv[2]), time.process_time()
subjects = "fox cat lawyer river child company engine letter storm queen".split()
verbs = "saw followed painted forgot described".split()
seconds = []
for text in [f"The {{s}} {{v}} an old man in the garden." for s in subjects for v in verbs]:
    begin = time.perf_counter()
    model.encode([text])
    seconds.append(time.perf_counter() - begin)
print(json.dumps([*first, 1000 * statistics.median(seconds)]))
"""


@configuration
class EncodingConfig:
    """Options of ``benchmarks.encoding``."""

    model: Positional[str] = "builtin"
    """A model of this package."""
    peer: str = MINILM
    """A sentence-transformers model; all-MiniLM-L6-v2 is that of the extra ``bench``, else the hub's."""
    text: Path | None = None
    """A sentence a line; None is the Wikipedia text of $MULTIVIEW_DATA."""
    rounds: Count = 5
    """Rounds that are measured, after one that is not."""


def draw_sentences(config: EncodingConfig) -> list[str]:
    """Return random sentences of the text, as many as the rounds need.

    Raises UserError if the text has fewer.
    """
    path = config.text or data_folder() / "corpora" / "wikipedia.txt.xz"
    sentences = [line.text.strip() for line in read_lines(path) if line.text.strip()]
    count = (config.rounds + 1) * SENTENCES  # the first round is not measured
    if len(sentences) < count:
        raise UserError(f"{path}: {len(sentences)} sentences; the rounds need {count} (--rounds)")
    return random.Random(0).sample(sentences, count)


def latencies(names: Mapping[str, str]) -> dict[str, list[float]]:
    """Run the script :data:`LATENCY` for both models in turns, and print and return the medians.

    ``names`` are the names of the models by ``ours`` and ``peer``.
    """
    rows: dict[str, list[list[float]]] = {name: [] for name in names}
    environment = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ}
    for _, (name, model) in product(range(STARTS), names.items()):
        call = [sys.executable, "-c", LATENCY.format(load=LOAD[name]), model, str(time.time())]
        process = subprocess.run(call, capture_output=True, text=True, check=True, env=environment)
        rows[name].append(json.loads(process.stdout.splitlines()[-1]))
    titles = ("first vector, s", "processor, s", "one more sentence, ms")
    medians: dict[str, list[float]] = {}
    for name, values in rows.items():
        columns = list(zip(*values, strict=True))
        for title, column in zip(titles, columns, strict=True):
            print(f"{name:6} {title:24} {spread(column)}")
        medians[name] = [round(median(column), 3) for column in columns]
    return medians


def main(config: EncodingConfig) -> None:
    """Print both rates, their ratio, the latencies, and a line of JSON."""
    # These take seconds to import, for which --help should not wait.
    import torch
    from sentence_transformers import SentenceTransformer

    from multiview.model import MultiViewEncoder

    sentences = draw_sentences(config)
    names = {"ours": config.model, "peer": find_peer(config.peer)}
    models = {
        "ours": MultiViewEncoder.load(names["ours"], "cpu"),
        "peer": SentenceTransformer(names["peer"], device="cpu"),
    }
    starts = {name: iter(range(0, len(sentences), SENTENCES)) for name in models}

    def encode(name: str) -> None:
        first = next(starts[name])
        models[name].encode(sentences[first : first + SENTENCES], show_progress_bar=False)

    calls = {name: partial(encode, name) for name in models}
    seconds_by_name = time_in_turns(calls, config.rounds, time.process_time)
    for name, seconds in seconds_by_name.items():
        print(f"{name:6} {spread([SENTENCES / s for s in seconds], 0)} sentences per second of a core")
    speed_ratios = ratios(seconds_by_name, "ours", "peer")
    print(f"ratio  {spread(speed_ratios)}")
    rate = {"ratio": round(median(speed_ratios), 3), "threads": torch.get_num_threads()}
    print(json.dumps({**rate, "latency": latencies(names)}))


cli = Command(EncodingConfig, main, "benchmarks.encoding", "Raw text to vectors, beside a peer.")


if __name__ == "__main__":
    sys.exit(cli())
