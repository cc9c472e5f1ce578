"""What must not move while the inside is rewritten: trees, scores, weights and vectors of fixed text.

    python -m tests.test_goldens          # measures everything again and writes goldens.json

Only entry points that users call are used, so that a rewrite can be held against the same figures. Integers
(trees) are compared by hash, floats to 1e-5; the vector instructions of the processor are recorded beside
them, for sums in another order differ in the last digits.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import lzma
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.optim.optimizer import register_optimizer_step_post_hook

from multiview.model import MultiViewEncoder
from multiview.train import main as train_views
from parsing.cache.reader import TreeCache
from parsing.run import ParseConfig
from parsing.run import main as parse
from parsing.score import cli as score
from parsing.train import cli as train_parser
from senteval_runner import evaluate
from tests.fixtures.treebanks import write_treebank
from tests.fixtures.trees import TINY, changed
from tests.senteval_runner.encoders import RandomBag

FILE = Path(__file__).with_name("goldens.json")
VIEWS = ("seq", "dep", "const")
PAIRS = [",".join(pair) for pair in itertools.combinations_with_replacement(VIEWS, 2)]
SENTENCES = 8192
"""Of the Brown corpus, where it is at hand."""
STEPS = 25
PARSERS = ("dep", "const", "both")
SCORES = {"uas", "las", "f1", "tags"}
ENCODED = [
    "The lawyer praised the doctor.",
    "The doctor was praised by the lawyer.",
    "She gave him three red apples and two green ones!",
    "Rain.",
    "When the train left, few of those who had waited knew where it went.",
    "It isn't what they'd said: \"nobody's coming\".",
]


def own_text() -> str:
    """200 sentences in documents of five, of few words and many shapes."""
    drawn = random.Random(35)
    nouns = ["lawyer", "doctor", "train", "market", "river", "letter", "teacher", "window", "storm", "bridge"]
    verbs = ["praised", "followed", "reached", "described", "lost"]
    more = ["", " near the old house", ", which nobody expected,", " of her friends", " in 1998"]
    ends = [".", " because it rained.", " and went home.", "; nobody answered.", ", didn't it?", "!"]
    lines = []
    for number in range(200):
        first, second = drawn.sample(nouns, 2)
        line = f"The {first}{drawn.choice(more)} {drawn.choice(verbs)} the {second}{drawn.choice(more[:2])}"
        lines += [line + drawn.choice(ends), *([""] if number % 5 == 4 else [])]
    return "\n".join(lines) + "\n"


def tree_hashes(text: str, folder: Path) -> dict[str, str]:
    """SHA-256 of heads, relations, children and labels of a text's trees, which stay in ``folder/trees``."""
    source = folder / "text.txt"
    source.write_text(text, encoding="utf-8")
    parse(ParseConfig(corpus=str(source), output=folder / "trees", format="lines", workers=1, device="cpu"))
    cache = TreeCache.open(folder / "trees")
    batch = cache.read(0, len(cache))
    named = {"relation": cache.relations, "label": cache.labels, "leaf_label": cache.labels}
    hashes = {}
    for field in ("head", "relation", "left", "right", "label", "leaf_label"):
        values = np.asarray(getattr(batch, field)).tolist()
        words = [named[field][value] for value in values] if field in named else values
        hashes[field] = hashlib.sha256(" ".join(map(str, words)).encode()).hexdigest()
    return hashes


def brown(data: Path) -> str:
    """The first sentences of the Brown corpus."""
    with lzma.open(data / "corpora/brown.txt.xz", "rt", encoding="utf-8") as lines:
        return "".join(itertools.islice(lines, SENTENCES))


def trained(trees: Path, views: str, engine: str, folder: Path) -> list[float]:
    """Length of every tensor, and its product with a fixed vector, after 25 steps."""
    config = changed(
        TINY,
        trees=trees,
        views=views,
        output=folder,
        name=f"{engine}-{views}",
        encoder={"engine": engine},
        loop={"max_steps": STEPS, "epochs": 100},
    )
    assert train_views(config) == 0
    # Not the model itself, which may be the start where the validation set liked that best.
    tensors = load_file(config.folder / "checkpoints" / f"step-{STEPS:08d}" / "weights.safetensors")
    found = []
    for name in sorted(tensors):
        values = tensors[name].double().flatten()
        found += [values.norm().item(), (values @ torch.cos(torch.arange(len(values)).double())).item()]
    return found


def trained_parser(kind: str, folder: Path, output: Path, killed: int = 0) -> list[float]:
    """Length and product of every tensor as above, and the dev scores, after 25 steps (5 epochs of 5).

    Args:
        kind: dep, const or both.
        folder: for the treebank.
        output: the model's folder.
        killed: a first run ends like a killed one after this many steps, the last one unsaved.
    """
    folder.mkdir(parents=True, exist_ok=True)
    arcs, brackets = write_treebank(folder)
    files = {
        "dep": ["--train", arcs, "--dev", arcs, "--model.encoder.end-boundary"],
        "const": ["--train", brackets, "--dev", brackets],
        "both": ["--train-dep", arcs, "--dev-dep", arcs, "--train-const", brackets, "--dev-const", brackets],
    }
    sizes = {"word-dim": 6, "character-dim": 4, "character-hidden": 6, "hidden": 8, "layers": 2}
    options = [part for name, value in sizes.items() for part in (f"--model.encoder.{name}", value)]
    options += ["--model.encoder.dropout", 0.2, "--model.encoder.embedding-dropout", 0.2]
    if kind != "const":
        options += ["--model.scorer.arc-dim", 7, "--model.scorer.relation-dim", 5]
        options += ["--model.scorer.dropout", 0.2]
    if kind != "dep":
        options += ["--model.label-hidden", 9, "--model.tag-hidden", 8]
    options += ["--model.min-count", 1, "--loop.batch-tokens", 28, "--loop.learning-rate", 0.01]
    options += ["--loop.beta2", 0.98, "--loop.average", 0.99, "--loop.epochs", 5, "--loop.checkpoint-s", 0]
    command = [str(part) for part in (kind, *files[kind], "--output", output, "--device", "cpu", *options)]
    if killed:
        with killed_after(killed):
            assert train_parser(command) == 130
        assert not list(output.glob("**/model.safetensors"))
    assert train_parser(command) == 0
    saved = output / "training" / "checkpoints" / f"step-{STEPS:08d}" / "weights.safetensors"
    pairs = []
    for values in load_file(saved).values():
        flat = values.double().flatten()
        pairs.append((flat.norm().item(), (flat @ torch.cos(torch.arange(len(flat)).double())).item()))
    lines = (output / "training" / "log.jsonl").read_text().splitlines()
    scores = [value for name, value in sorted(json.loads(lines[-1]).items()) if name in SCORES]
    return [figure for pair in sorted(pairs) for figure in pair] + scores


@contextlib.contextmanager
def killed_after(steps: int) -> Iterator[None]:
    """Ends whatever trains after this many updates of the weights, before the last is saved."""
    done = 0

    def count(*_: object) -> None:
        nonlocal done
        done += 1
        if done == steps:
            raise KeyboardInterrupt

    hook = register_optimizer_step_post_hook(count)
    try:
        yield
    finally:
        hook.remove()


def encoded() -> list[float]:
    """Length of builtin's vectors, their first numbers, and all products of two."""
    vectors = MultiViewEncoder.load("builtin", "cpu").encode(ENCODED).astype(np.float64)
    rows = [np.linalg.norm(vectors, axis=1), vectors[:, :4].ravel(), (vectors @ vectors.T).ravel()]
    return np.concatenate(rows).tolist()


def parser_scores(data: Path) -> dict[str, float]:
    """UAS, LAS, F1 and tags of the parsers in the box on GUM's development part."""
    found = {}
    for kind, file, names in (("dep", "dev.conllu", ("uas", "las")), ("const", "dev.ptb", ("f1", "tags"))):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            assert score([kind, "builtin", str(data / "treebank/gum" / file), "--threads", "1"]) == 0
        scores = json.loads([line for line in shown.getvalue().splitlines() if line.startswith("{")][-1])
        found |= {name: scores[name] for name in names}
    return found


def small_scores(folder: Path) -> dict[str, float]:
    """SentEval's figures of two small encoders on made-up tasks, under each protocol."""
    found = {}
    for dim, protocol in itertools.product((5, 20), ("default", "fast", "sklearn")):
        results = evaluate(RandomBag(dim), ["CR", "MRPC", "SICKRelatedness"], folder, protocol)
        for task, result in results.tasks.items():
            found |= {f"{dim} {protocol} {task} {name}": value for name, value in result.metrics.items()}
    return found


@pytest.fixture(scope="module")
def goldens() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("goldens")
    yield folder / "trees", tree_hashes(own_text(), folder)


def test_trees_of_own_text(goldens: dict[str, Any], parsed: tuple[Path, dict[str, str]]) -> None:
    assert parsed[1] == goldens["trees"]


@pytest.mark.data
def test_trees_of_real_text(goldens: dict[str, Any], tmp_path: Path, data_folder: Path) -> None:
    assert tree_hashes(brown(data_folder), tmp_path) == goldens["brown"]


@pytest.mark.parametrize("engine", ["native", "dgl"])
@pytest.mark.parametrize("views", PAIRS)
def test_weights_after_25_steps(
    goldens: dict[str, Any], parsed: tuple[Path, dict[str, str]], tmp_path: Path, views: str, engine: str
) -> None:
    """One figure for both engines: they differ by less than the tolerance."""
    if engine == "dgl":
        pytest.importorskip("dgl")
    found = trained(parsed[0], views, engine, tmp_path)
    np.testing.assert_allclose(found, goldens["weights"][views], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", PARSERS)
def test_parser_training_after_25_steps(goldens: dict[str, Any], tmp_path: Path, kind: str) -> None:
    """In one go and killed at step 12: the same bits."""
    whole = trained_parser(kind, tmp_path / "whole", tmp_path / "m")
    np.testing.assert_allclose(whole, goldens["parsers"][kind], rtol=1e-5, atol=1e-7)
    (tmp_path / "m").rename(tmp_path / "first")
    assert trained_parser(kind, tmp_path / "whole", tmp_path / "m", killed=12) == whole
    files = sorted(path.relative_to(tmp_path / "m") for path in (tmp_path / "m").glob("**/*.safetensors"))
    assert len(files) > 3
    for file in files:
        assert (tmp_path / "m" / file).read_bytes() == (tmp_path / "first" / file).read_bytes(), file


def test_vectors_of_builtin(goldens: dict[str, Any]) -> None:
    np.testing.assert_allclose(encoded(), goldens["builtin"], rtol=1e-5, atol=1e-7)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scores_of_small_encoders(goldens: dict[str, Any], data: Path) -> None:
    found = small_scores(data)
    assert found.keys() == goldens["senteval"].keys()
    for name, value in found.items():
        assert value == pytest.approx(goldens["senteval"][name], rel=1e-4, abs=1e-4), name


@pytest.mark.data
def test_scores_of_the_parsers(goldens: dict[str, Any], data_folder: Path) -> None:
    assert parser_scores(data_folder) == pytest.approx(goldens["gum"], abs=1e-4)


def rewrite() -> None:
    """Measure everything and write the file; needs MULTIVIEW_DATA."""
    from tests.fixtures.senteval import write_tasks

    real = Path(os.environ["MULTIVIEW_DATA"])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "brown").mkdir()
        goldens = {
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "trees": tree_hashes(own_text(), folder),
            "brown": tree_hashes(brown(real), folder / "brown"),
            "weights": {views: trained(folder / "trees", views, "native", folder) for views in PAIRS},
            "builtin": encoded(),
            "senteval": small_scores(write_tasks(folder / "data")),
            "gum": parser_scores(real),
            "parsers": {kind: trained_parser(kind, folder, folder / kind) for kind in PARSERS},
        }
    rounded = json.loads(json.dumps(goldens), parse_float=lambda text: float(f"{float(text):.7g}"))
    FILE.write_text(json.dumps(rounded, indent=1) + "\n")


if __name__ == "__main__":
    rewrite()
