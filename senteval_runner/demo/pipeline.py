"""The whole pipeline on text that every machine has: ``make demo``.

    python -m senteval_runner.demo

Parses the embedded ``pydocs`` corpus (English documentation of Python and its libraries), adapts the
encoder of the installation to it, trains a DEP+CONST model from nothing beside that, evaluates neighbour
retrieval on packages that neither has seen, and writes trees, models, ``results.json`` and a self-contained
``report.html`` under ``runs/demo/``. Every step is an ordinary command, printed before it runs; a stopped
demo continues where it was.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.support.cli import Command
from corpora.support.config import CountOrNone, Positive, config_to_json, configuration
from corpora.support.steps import run_step

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from multiview.model import MultiViewEncoder
    from parsing.cache.reader import TreeCache
    from senteval_runner.demo.retrieval import RetrievalScores

ADAPTED, SCRATCH = "adapted", "dep-const"
"""The models: the installation's encoder, continued on this text; one that has seen nothing but this text."""
# In documentation neighbours are sentences with the same rare words, so words that the encoder has never seen
# get vectors of their own, and every word's vector a share that no other word has.
ADAPTING = (
    *("--words", "tuned", "--table.identity", "0.5", "--vocabulary.buckets", "5000"),
    *("--objective.score", "cosine", "--objective.same", "1", "--objective.duplicates", "masked"),
    *("--table.dropout", "0.1", "--table.dropout-views", "each", "--validation.select", "both"),
    *("--encoder.pooling", "root+mean"),
)


@configuration
class DemoConfig:
    """Size of the demo; the defaults take about ten minutes on two cores."""

    output: Path = Path("runs/demo")
    """Folder for trees, model, results.json and report.html."""
    sentences: str = "48k"
    """Training sentences."""
    held_out: str = "16k"
    """At most this many sentences of held-out packages for the evaluation (there are about 15,600)."""
    minutes: Positive = 2.5
    """Minutes of adapting the installation's encoder."""
    scratch_minutes: Positive = 1.0
    """Minutes of training from nothing."""
    seed: CountOrNone = 0
    """Seed of training."""


def sentence_documents(cache: TreeCache) -> NDArray[Any]:
    """Document number of every sentence of a cache; int64 [N]."""
    import numpy as np

    offsets = np.asarray(cache.documents())
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def tokens_of(cache: TreeCache) -> list[list[str]]:
    """Every sentence of a cache as words."""
    return list(cache.read(0, len(cache), ("token",)).words())


def word_average(model: MultiViewEncoder, sentences: list[list[str]]) -> NDArray[Any]:
    """Mean of each sentence's trained word vectors, the tables side by side; [N, tables × words]."""
    import numpy as np

    lengths = np.array([len(words) for words in sentences])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    vectors_ND = model.word_vectors([word for words in sentences for word in words])
    result: NDArray[Any] = np.add.reduceat(vectors_ND, starts, axis=0) / lengths[:, None]
    return result


def evaluate(models: Path, train_trees: Path, held_out_trees: Path) -> dict[str, RetrievalScores]:
    """Neighbour retrieval of the adapted encoder and of what it has to beat.

    That is the same before its first step and as it is in the package (it has seen none of this text), a
    model of this text alone, also before its first step, bags of words and of random vectors, and TF-IDF.
    """
    from multiview.model import MultiViewEncoder
    from parsing.cache.reader import TreeCache
    from senteval_runner.demo.retrieval import neighbour_retrieval, tfidf_embeddings
    from senteval_runner.vectors.encoders import open_model
    from senteval_runner.vectors.untrained import load_start

    held_out = TreeCache.open(held_out_trees)
    sentences = tokens_of(held_out)
    adapted = MultiViewEncoder.load(models / ADAPTED)
    encoders = {
        "builtin, adapted": adapted,
        "builtin, adapted, before its first step": load_start(models / ADAPTED, train_trees),
        "builtin": MultiViewEncoder.load("builtin"),
        "DEP+CONST of this text alone": MultiViewEncoder.load(models / SCRATCH),
        "DEP+CONST, before its first step": load_start(models / SCRATCH, train_trees),
    }
    rows: dict[str, NDArray[Any] | csr_matrix] = {
        name: encoder.encode(None, trees=held_out, batch_size=256) for name, encoder in encoders.items()
    }
    rows |= {
        "average of the adapted words": word_average(adapted, sentences),
        "SIF of the adapted words": open_model(f"sif:{models / ADAPTED}?corpus={train_trees}")(sentences),
        "average of random words": open_model("bag:random")(sentences),
        "SIF of random words": open_model(f"sif:random?corpus={train_trees}")(sentences),
        "TF-IDF": tfidf_embeddings(tokens_of(TreeCache.open(train_trees)), sentences),
    }
    return neighbour_retrieval(rows, sentence_documents(held_out))


def steps(config: DemoConfig) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The commands to run: a title and the words after ``python -m``, by their name in the times."""
    trees, models = config.output / "trees", config.output / "models"

    def parse(split: str, limit: str) -> tuple[str, ...]:
        output = str(trees / f"pydocs-{split}")
        return ("parsing.run", "pydocs", "--split", split, "--limit", limit, "--output", output)

    def train(name: str, minutes: float, *options: str) -> tuple[str, ...]:
        where = ("--trees", str(trees / "pydocs-train"), "--output", str(models), "--name", name)
        size = ("--loop.max-minutes", str(minutes), "--seed", str(config.seed))
        return ("multiview.train", *options, *where, *size)

    scratch = train(SCRATCH, config.scratch_minutes, "--views", "dep,const")
    return {
        "parse training text": ("1/5 parse the training text", parse("train", config.sentences)),
        "parse held-out text": ("2/5 parse the held-out packages", parse("heldout", config.held_out)),
        "adapt": (
            "3/5 adapt the encoder in the package",
            train(ADAPTED, config.minutes, "--init", "builtin", *ADAPTING),
        ),
        "train": ("4/5 train two views from nothing", scratch),
    }


def main(config: DemoConfig) -> None:
    """Parse, train, evaluate, report."""
    trees, models = config.output / "trees", config.output / "models"
    train_trees, held_out_trees = trees / "pydocs-train", trees / "pydocs-heldout"
    seconds = {name: run_step(title, *words) for name, (title, words) in steps(config).items()}
    print("\n== 5/5 neighbour retrieval on the held-out packages", flush=True)
    began = time.monotonic()
    scores = evaluate(models, train_trees, held_out_trees)
    seconds["evaluate"] = time.monotonic() - began

    from senteval_runner.demo.report import retrieval_table, write_demo_report, write_results

    write_results(config.output / "results.json", config_to_json(config), scores, seconds)
    report = write_demo_report(config.output, models / ADAPTED, held_out_trees, scores, seconds)
    print(retrieval_table(scores).markdown())
    print("seconds: " + ", ".join(f"{step} {value:.0f}" for step, value in seconds.items()))
    print(f"trees    {trees}\nmodel    {models / ADAPTED}\nresults  {config.output / 'results.json'}")
    print(f"report   {report}   <- open this in a browser")


cli = Command(
    DemoConfig,
    main,
    "senteval_runner.demo",
    (__doc__ or "").split("\n")[0],
    owns=lambda config: config.output,
)
