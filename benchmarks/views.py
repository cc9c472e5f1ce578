"""The paper's claim: which pair of views learns the best sentence vectors?

    python -m parsing.run $MULTIVIEW_DATA/corpora/wikipedia.txt.xz
    python -m parsing.run senteval --data $MULTIVIEW_DATA/senteval
    python -m benchmarks.views --trees runs/trees/wikipedia --data $MULTIVIEW_DATA/senteval

The six pairs of {seq, dep, const} at equal size, words, steps and order of data on one corpus (MV, Table 2),
their untrained twins (MV, Table 3), a QuickThought replication (seq,seq; dot score, one softmax, the
sentence itself at score 0) and averages of word2vec vectors trained on the same text. The constants below fix
the budget before any result is seen. Every system runs in its own process with one thread, two at a time;
finished ones are not repeated. Scores: MR, CR, SUBJ, TREC, MRPC accuracy and SICK-R Pearson x 100.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

TASKS = ("MR", "CR", "SUBJ", "TREC", "MRPC", "SICKRelatedness")
PAIRS = tuple(",".join(pair) for pair in combinations_with_replacement(("seq", "dep", "const"), 2))
# Shared by every pair. Options that favour some pairs are off: forget bias and small recurrent weights suit
# trees, an equal start suits views that share an architecture. The score is the paper's.
BUDGET = (
    *("--preset", "laptop", "--objective.score", "bilinear", "--table.no-equal", "--encoder.no-equal-inputs"),
    *("--encoder.forget-bias", "0", "--encoder.recurrent-scale", "1", "--encoder.dim", "128"),
    *("--table.dim", "128", "--loop.batch", "200", "--loop.epochs", "1000", "--loop.threads", "1"),
)
QUICKTHOUGHT = (
    *("--objective.score", "dot", "--objective.denominator", "all"),
    *("--objective.self-score", "zero"),
)


def run(module: str, *arguments: object) -> None:
    """``python -m MODULE`` on one thread; its last lines are shown if it fails."""
    words = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if result.returncode:
        raise RuntimeError(f"{' '.join(words)}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")


def scores_path(options: argparse.Namespace, system: str, seed: int) -> Path:
    name = system.replace(",", "-").replace(" ", "-")
    return Path(options.output / "scores" / f"{name}-steps{options.steps}-seed{seed}.json")


def encoder_of(options: argparse.Namespace, system: str, seed: int) -> Any:
    """The system's encoder, trained first if necessary."""
    if system == "word2vec average":
        return Word2Vec(options.trees, seed)
    from multiview.model import MultiViewEncoder

    if system.startswith("untrained "):
        like = MultiViewEncoder.load(trained(options, "dep,const", seed))
        return MultiViewEncoder.untrained(system.removeprefix("untrained "), like=like, seed=seed)
    return MultiViewEncoder.load(trained(options, system, seed))


def trained(options: argparse.Namespace, system: str, seed: int) -> Path:
    """Model folder of a pair of views or of QuickThought; a stopped training is resumed."""
    views, extra = ("seq,seq", QUICKTHOUGHT) if system == "quickthought" else (system, ())
    name = f"{system.replace(',', '-')}-steps{options.steps}-seed{seed}"
    run(
        "multiview.train",
        *("--views", views, "--trees", options.trees, "--output", options.output / "models", "--name", name),
        *(*BUDGET, "--loop.max-steps", options.steps, "--seed", seed, *extra),
    )
    return Path(options.output / "models" / name)


def score_one(options: argparse.Namespace, system: str, seed: int) -> None:
    """Evaluate one system and write its scores."""
    from corpora.support.files import write_json
    from senteval_runner import evaluate
    from senteval_runner.vectors.embed import StoredEncoder
    from senteval_runner.vectors.encoders import tree_reading

    encoder = encoder_of(options, system, seed)
    if system != "word2vec average":
        encoder = StoredEncoder(functools.partial(tree_reading, encoder, options.evaluation_trees))
    results = evaluate(encoder, TASKS, options.data, options.protocol)
    scores = {
        task: 100 * results[task]["pearson"] if task == "SICKRelatedness" else results[task]["acc"]
        for task in TASKS
    }
    write_json(scores_path(options, system, seed), scores)


def score(options: argparse.Namespace, system: str, seed: int) -> dict[str, float]:
    """Scores of one system from its own process, or from an earlier run."""
    path = scores_path(options, system, seed)
    if not path.exists():
        began = time.monotonic()
        run(
            "benchmarks.views",
            *("--trees", options.trees, "--data", options.data, "--output", options.output),
            *("--evaluation-trees", options.evaluation_trees),
            *("--steps", options.steps, "--protocol", options.protocol, "--seeds", seed, "--only", system),
        )
        print(f"{system}, seed {seed}: {time.monotonic() - began:.0f} s", flush=True)
    return dict(json.loads(path.read_text()))


def systems() -> list[str]:
    """All systems in running order; untrained twins come last because they need a trained vocabulary."""
    untrained = [f"untrained {pair}" for pair in ("seq,dep", "seq,const", "dep,const")]
    return [*PAIRS, "quickthought", "word2vec average", *untrained]


class Word2Vec:
    """Average of skip-gram vectors trained on the same sentences (gensim)."""

    pretokenized = True

    def __init__(self, trees: Path, seed: int) -> None:
        from gensim.models import Word2Vec as Gensim

        from parsing.cache.reader import TreeCache

        cache = TreeCache.open(trees)
        sentences = [[w.lower() for w in words] for words in cache.read(0, len(cache), ("token",)).words()]
        self.vectors = Gensim(
            sentences,
            vector_size=256,
            sg=1,
            window=5,
            negative=5,
            min_count=2,
            epochs=3,
            seed=seed,
            workers=1,
        ).wv

    def encode(self, sentences: list[list[str]]) -> Any:
        """Mean vector of the known words of each sentence; float32 [n, 256]."""
        import numpy as np

        rows = np.zeros((len(sentences), self.vectors.vector_size), dtype=np.float32)
        for row, words in zip(rows, sentences, strict=True):
            known = [self.vectors[word.lower()] for word in words if word.lower() in self.vectors]
            if known:
                row[:] = np.mean(known, axis=0)
        return rows


def table(scores: dict[str, dict[int, dict[str, float]]]) -> str:
    """Markdown: mean over seeds per task, mean over tasks with its range over seeds."""
    lines = [
        "| system | " + " | ".join(TASKS) + " | mean (range over seeds) |",
        "|---" * (len(TASKS) + 2) + "|",
    ]
    for system, by_seed in scores.items():
        means = [statistics.mean(s.values()) for s in by_seed.values()]
        cells = [f"{statistics.mean(s[task] for s in by_seed.values()):.1f}" for task in TASKS]
        spread = f"{statistics.mean(means):.2f} ({min(means):.2f} to {max(means):.2f})"
        lines.append(f"| {system} | {' | '.join(cells)} | {spread} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--trees", type=Path, required=True, help="tree cache to train on")
    parser.add_argument("--data", type=Path, required=True, help="SentEval data folder")
    parser.add_argument(
        "--evaluation-trees",
        type=Path,
        default=Path("runs/trees/senteval"),
        help="tree cache of the SentEval sentences (parsing.run senteval)",
    )
    parser.add_argument("--output", type=Path, default=Path("runs/views"))
    parser.add_argument("--steps", type=int, default=1500, help="training steps of each system")
    parser.add_argument("--seeds", default="0", help="comma-separated")
    parser.add_argument("--protocol", default="default", choices=("default", "fast", "sklearn"))
    parser.add_argument("--jobs", type=int, default=2, help="systems at a time, one thread each")
    parser.add_argument("--only", default="", help=argparse.SUPPRESS)  # one system, in this process
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    if options.only:
        score_one(options, options.only, seeds[0])
        return
    work = [(system, seed) for seed in seeds for system in systems()]
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda item: score(options, *item), work))
    scores: dict[str, dict[int, dict[str, float]]] = {system: {} for system in systems()}
    for (system, seed), result in zip(work, found, strict=True):
        scores[system][seed] = result
    print(table(scores))
    means = {
        name: statistics.mean(statistics.mean(s.values()) for s in by.values()) for name, by in scores.items()
    }
    print(json.dumps({"steps": options.steps, "seeds": seeds, "mean": means}))


if __name__ == "__main__":
    main()
