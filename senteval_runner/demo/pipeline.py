"""The whole pipeline on text that every machine has: ``make demo``.

    python -m senteval_runner.demo

Parses the embedded ``pydocs`` corpus (English documentation of Python and its libraries), trains a
DEP+CONST model on it, evaluates neighbour retrieval on packages it has not seen, and writes trees, model,
``results.json`` and a self-contained ``report.html`` under ``runs/demo/``. Every step is an ordinary
command, printed before it runs; a stopped demo continues where it was.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.support.cli import Command, command_line
from corpora.support.config import CountOrNone, Positive, config_to_json, configuration
from corpora.support.steps import run_step

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

    from multiview.model import MultiViewEncoder
    from parsing.cache.reader import TreeCache
    from senteval_runner.demo.retrieval import RetrievalScores

MODEL = "dep-const"


@configuration
class DemoConfig:
    """Size of the demo; the defaults take less than ten minutes on two cores."""

    output: Path = Path("runs/demo")
    """Folder for trees, model, results.json and report.html."""
    sentences: str = "48k"
    """Training sentences."""
    held_out: str = "16k"
    """At most this many sentences of held-out packages for the evaluation (there are about 15,600)."""
    minutes: Positive = 3.5
    """Minutes of training."""
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
    """Mean of each sentence's trained word vectors, every view's table side by side; [N, views × words]."""
    import numpy as np

    lengths = np.array([len(words) for words in sentences])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    vectors_ND = model.word_vectors([word for words in sentences for word in words])
    result: NDArray[Any] = np.add.reduceat(vectors_ND, starts, axis=0) / lengths[:, None]
    return result


def evaluate(model_folder: Path, train_trees: Path, held_out_trees: Path) -> dict[str, RetrievalScores]:
    """Neighbour retrieval of the trained model and of what it has to beat.

    That is the same model before its first step, plain random weights, bags of its words and of random ones,
    and TF-IDF. The encoder of the installation has seen none of this text; it is scored alone and beside the
    trained model, each part at unit length.
    """
    import numpy as np

    from multiview.model import MultiViewEncoder
    from parsing.cache.reader import TreeCache
    from senteval_runner.demo.retrieval import neighbour_retrieval, tfidf_embeddings
    from senteval_runner.protocol.features import unit
    from senteval_runner.vectors.encoders import resolve_encoder
    from senteval_runner.vectors.starts import StartSpec, load_start

    held_out = TreeCache.open(held_out_trees)
    documents = sentence_documents(held_out)
    model = MultiViewEncoder.load(model_folder)
    start = load_start(StartSpec(str(model_folder), train_trees))
    random = MultiViewEncoder.untrained(model.views, like=model)
    sentences = tokens_of(held_out)
    sif = resolve_encoder(f"sif:{model_folder}?corpus={train_trees}")
    trained_ND = model.encode(None, trees=held_out, batch_size=256)
    builtin_ND = MultiViewEncoder.load("builtin").encode(None, trees=held_out, batch_size=256)
    rows: dict[str, NDArray[Any] | csr_matrix] = {
        "builtin and DEP+CONST, trained": np.hstack([unit(builtin_ND), unit(trained_ND)]),
        "builtin": builtin_ND,
        "DEP+CONST, trained": trained_ND,
        "DEP+CONST, before its first step": start.encode(None, trees=held_out, batch_size=256),
        "DEP+CONST, random weights": random.encode(None, trees=held_out, batch_size=256),
        "average of the trained word vectors": word_average(model, sentences),
        "SIF of the trained word vectors": sif(sentences),
        "average of random word vectors": resolve_encoder("bag:random")(sentences),
        "TF-IDF": tfidf_embeddings(tokens_of(TreeCache.open(train_trees)), sentences),
    }
    return {name: neighbour_retrieval(vectors, documents) for name, vectors in rows.items()}


def steps(config: DemoConfig) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The commands to run: a title and the words after ``python -m``, by their name in the times."""
    trees, models = config.output / "trees", config.output / "models"

    def parse(split: str, limit: str) -> tuple[str, ...]:
        output = str(trees / f"pydocs-{split}")
        return ("parsing.run", "pydocs", "--split", split, "--limit", limit, "--output", output)

    train = (
        *("multiview.train", "--views", "dep,const", "--trees", str(trees / "pydocs-train")),
        *("--output", str(models), "--name", MODEL),
        *("--loop.max-minutes", str(config.minutes), "--seed", str(config.seed)),
    )
    return {
        "parse training text": ("1/4 parse the training text", parse("train", config.sentences)),
        "parse held-out text": ("2/4 parse the held-out packages", parse("heldout", config.held_out)),
        "train": ("3/4 train the two views", train),
    }


def main(config: DemoConfig) -> None:
    """Parse, train, evaluate, report."""
    trees, models = config.output / "trees", config.output / "models"
    train_trees, held_out_trees = trees / "pydocs-train", trees / "pydocs-heldout"
    seconds = {name: run_step(title, *words) for name, (title, words) in steps(config).items()}
    print("\n== 4/4 neighbour retrieval on the held-out packages", flush=True)
    began = time.monotonic()
    scores = evaluate(models / MODEL, train_trees, held_out_trees)
    seconds["evaluate"] = time.monotonic() - began

    from senteval_runner.demo.report import retrieval_table, write_demo_report, write_results

    write_results(config.output / "results.json", config_to_json(config), scores, seconds)
    report = write_demo_report(config.output, models / MODEL, held_out_trees, scores, seconds)
    print(retrieval_table(scores).markdown())
    print("seconds: " + ", ".join(f"{step} {value:.0f}" for step, value in seconds.items()))
    print(f"trees    {trees}\nmodel    {models / MODEL}\nresults  {config.output / 'results.json'}")
    print(f"report   {report}   <- open this in a browser")


cli = Command(
    DemoConfig,
    main,
    "senteval_runner.demo",
    (__doc__ or "").split("\n")[0],
    owns=lambda config: config.output,
    then=lambda config: command_line(
        "multiview.search", "builtin", config.output / "trees/pydocs-heldout", "How do I open a file?"
    ),
)
