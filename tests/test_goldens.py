"""What must not move while the inside is rewritten: trees, scores, weights and vectors of fixed text.

    python -m tests.test_goldens          # measures everything again and writes goldens.json
    python -m tests.test_goldens burt     # only these sections

Only entry points that users call are used, so that a rewrite can be held against the same figures. Integers
(trees) are compared by hash, floats to 1e-4: after 25 steps another processor is off by 1.5e-5, a learning
rate that is wrong by 0.1 % by more than 1e-4 in most weights. Vector instructions are recorded beside them.
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
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from multiview.model import MultiViewEncoder
from multiview.train import main as train_views
from parsing.run import ParseConfig
from parsing.run import main as parse
from parsing.score import cli as score
from parsing.trees.cache import TreeCache
from senteval_runner import evaluate
from tests.fixtures.goldens import fingerprint, same_after_a_kill
from tests.fixtures.trees import TINY, changed
from tests.parsing import goldens as parsers
from tests.senteval_runner.encoders import RandomBag
from tests.studies import goldens as tuned
from tests.studies import goldens_frozen as frozen

FILE = Path(__file__).with_name("goldens.json")
VIEWS = ("seq", "dep", "const")
PAIRS = [",".join(pair) for pair in itertools.combinations_with_replacement(VIEWS, 2)]
SENTENCES = 8192
"""Of the Brown corpus, where it is at hand."""
STEPS = 25
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
    return fingerprint(load_file(config.folder / "checkpoints" / f"step-{STEPS:08d}" / "weights.safetensors"))


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
            assert score([kind, "builtin", str(data / "treebank/gum" / file)]) == 0
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
def goldens() -> Any:
    return json.loads(FILE.read_text())


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
    assert trained(parsed[0], views, engine, tmp_path) == numbers(goldens["weights"][views])


def test_vectors_of_builtin(goldens: dict[str, Any]) -> None:
    assert encoded() == numbers(goldens["builtin"])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scores_of_small_encoders(goldens: dict[str, Any], data: Path) -> None:
    assert small_scores(data) == pytest.approx(goldens["senteval"], rel=1e-4, abs=1e-4)


@pytest.mark.data
def test_scores_of_the_parsers(goldens: dict[str, Any], data_folder: Path) -> None:
    assert parser_scores(data_folder) == pytest.approx(goldens["gum"], abs=1e-4)


SECTIONS: Mapping[str, Callable[[Path], Any]] = {**tuned.SECTIONS, **frozen.SECTIONS, **parsers.SECTIONS}
"""By their names in the file: what is measured in an empty folder, without other inputs."""
KILLED: Mapping[str, Callable[[Path], list[Path]]] = {**tuned.KILLED, **frozen.KILLED, **parsers.KILLED}
"""Trainings of some 25 steps, which return the files that they write."""


def numbers(value: Any) -> Any:
    """The same nesting, floats compared with a tolerance."""
    if isinstance(value, dict):
        return {name: numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [numbers(one) for one in value]
    return pytest.approx(value, rel=1e-4, abs=1e-5) if isinstance(value, float) else value


@pytest.mark.parametrize("name", SECTIONS)
def test_section(goldens: dict[str, Any], tmp_path: Path, name: str) -> None:
    assert json.loads(json.dumps(SECTIONS[name](tmp_path))) == numbers(goldens[name])


@pytest.mark.parametrize("name", KILLED)
def test_killed_at_step_12_and_resumed(tmp_path: Path, name: str) -> None:
    same_after_a_kill(KILLED[name], tmp_path)


def rewrite(names: list[str]) -> None:
    """Measure these sections, by default everything, and write the file; all needs MULTIVIEW_DATA."""
    from tests.fixtures.senteval import write_tasks

    goldens = json.loads(FILE.read_text()) if names else {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if not names:
            real = Path(os.environ["MULTIVIEW_DATA"])
            (folder / "brown").mkdir()
            goldens = {
                "instructions": torch.backends.cpu.get_cpu_capability(),
                "trees": tree_hashes(own_text(), folder),
                "brown": tree_hashes(brown(real), folder / "brown"),
                "weights": {views: trained(folder / "trees", views, "native", folder) for views in PAIRS},
                "builtin": encoded(),
                "senteval": small_scores(write_tasks(folder / "data")),
                "gum": parser_scores(real),
            }
        for name in names or SECTIONS:
            (folder / "sections" / name).mkdir(parents=True)
            goldens[name] = SECTIONS[name](folder / "sections" / name)
    rounded = json.loads(json.dumps(goldens), parse_float=lambda text: float(f"{float(text):.7g}"))
    FILE.write_text(json.dumps(rounded, indent=1) + "\n")


if __name__ == "__main__":
    rewrite(sys.argv[1:])
