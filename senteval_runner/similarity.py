"""Similarity beyond sentences: words, phrases and untrained sentence pairs by cosine.

    python -m senteval_runner.similarity MODEL [A+B ...] --words FOLDER --data SENTEVAL

Word sets (BURT, Table 2), phrase pairs, and STS-B and SICK-R without a trained head (BURT, Table 3):
Spearman's and Pearson's correlation, times 100, between gold scores and cosines. Every pair counts; how
many pairs hold a word the encoder does not know is the encoder's affair and not hidden by dropping rows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tyro.conf import Positional

from corpora.support.cli import config_to_json, run_command
from corpora.support.errors import UserError
from corpora.support.files import write_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Encoder(Protocol):
    """Anything that turns texts into vectors."""

    def encode(self, sentences: list[str]) -> Any:
        """[n, D], one row per text."""
        ...


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """How well cosines follow gold scores; correlations are times 100."""

    spearman: float
    pearson: float
    pairs: int


def cosines(left_ND: NDArray[np.floating], right_ND: NDArray[np.floating]) -> NDArray[np.float64]:
    """Cosine of each row pair, 0 where a vector is zero; float64 [N]."""
    import numpy as np

    left_ND, right_ND = left_ND.astype(np.float64), right_ND.astype(np.float64)
    norms_N = np.linalg.norm(left_ND, axis=1) * np.linalg.norm(right_ND, axis=1)
    dots_N = np.einsum("nd,nd->n", left_ND, right_ND)
    return np.divide(dots_N, norms_N, out=np.zeros_like(dots_N), where=norms_N > 0)


def correlate(
    encoder: Encoder, left: Sequence[str], right: Sequence[str], gold: Sequence[float]
) -> Correlation:
    """Correlation of an encoder's cosines with gold scores; constant cosines count as 0."""
    import numpy as np
    from scipy.stats import pearsonr, spearmanr

    texts = sorted({*left, *right})
    row = {text: i for i, text in enumerate(texts)}
    vectors = np.asarray(encoder.encode(texts))
    similarity = cosines(vectors[[row[t] for t in left]], vectors[[row[t] for t in right]])
    if np.ptp(similarity) == 0 or np.ptp(np.asarray(gold)) == 0:
        return Correlation(spearman=0.0, pearson=0.0, pairs=len(gold))
    return Correlation(
        spearman=100 * float(spearmanr(similarity, gold).statistic),
        pearson=100 * float(pearsonr(similarity, gold).statistic),
        pairs=len(gold),
    )


def word_similarity(encoder: Encoder, folder: Path) -> tuple[dict[str, Correlation], list[str]]:
    """All word sets found below ``folder``, and the names of those that are not there."""
    from corpora.similarity_sets import SETS, find_set

    found: dict[str, Correlation] = {}
    missing = []
    for name in SETS:
        pairs = find_set(name, folder)
        if pairs is None:
            missing.append(name)
        else:
            found[name] = correlate(encoder, pairs.left, pairs.right, pairs.score)
    return found, missing


def sentence_similarity(encoder: Encoder, data: Path) -> dict[str, Correlation]:
    """STS-B and SICK-R test pairs by cosine, no head trained."""
    from corpora.senteval_files import read_task

    found = {}
    for task in ("STSBenchmark", "SICKRelatedness"):
        split = read_task(task, data).splits["test"]
        assert split.b is not None
        left, right = ([" ".join(tokens) or "." for tokens in side] for side in (split.a, split.b))
        found[f"{task} (untrained)"] = correlate(encoder, left, right, split.y)
    return found


def phrase_similarity(encoder: Encoder, file: Path) -> Correlation:
    """Phrase pairs of a held-out PPDB split against the score of equivalence.

    Args:
        encoder: any encoder.
        file: PPDB 2.0 lines with ``Equivalence`` among their features (the probability the
            authors' classifier gives that entailment relation).

    Raises:
        UserError: no line carries the feature.
    """
    from corpora.pairs import read_ppdb

    rows = [pair for pair in read_ppdb(file) if "Equivalence" in pair.features()]
    if not rows:
        raise UserError(f"{file}: no row has the feature Equivalence (PPDB 2.0 has it, PPDB 1.0 has not)")
    gold = [float(pair.features()["Equivalence"]) for pair in rows]
    return correlate(encoder, [pair.left for pair in rows], [pair.right for pair in rows], gold)


@dataclass(frozen=True, kw_only=True)
class SimilarityConfig:
    """What is compared."""

    models: Positional[tuple[str, ...]]
    """Model folders, word-vector files, sentence-transformers names, random:dep,const, or A+B of several."""
    words: Path | None = None
    """Folder that holds the word sets (searched recursively)."""
    data: Path | None = None
    """SentEval data folder, for STS-B and SICK-R without a trained head."""
    phrases: Path | None = None
    """PPDB 2.0 file of held-out phrase pairs."""
    output: Path = Path("runs/reports/similarity")
    """Folder for results.json and results.md."""
    seed: int = 1111
    """Seed of random encoders."""
    dry_run: bool = False
    """Print the configuration and an estimate of the encoding's time from some texts; write nothing."""


def table(results: dict[str, dict[str, Correlation]]) -> str:
    """Markdown: one row per model, Spearman × 100 per set."""
    sets = list(dict.fromkeys(name for scores in results.values() for name in scores))
    lines = ["| model | " + " | ".join(sets) + " |", "|---" * (len(sets) + 1) + "|"]
    for model, scores in results.items():
        cells = [f"{scores[name].spearman:.1f}" if name in scores else "–" for name in sets]
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def score_all(config: SimilarityConfig, encoder: Encoder) -> tuple[dict[str, Correlation], list[str]]:
    """Every set that was asked for and is there, and the names of word sets that are not."""
    scores: dict[str, Correlation] = {}
    missing: list[str] = []
    if config.words is not None:
        scores, missing = word_similarity(encoder, config.words)
    if config.phrases is not None:
        scores["PPDB phrases"] = phrase_similarity(encoder, config.phrases)
    if config.data is not None:
        scores |= sentence_similarity(encoder, config.data)
    return scores, missing


class _Texts:
    """Stands for an encoder and notes what it would be asked to encode."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def encode(self, sentences: list[str]) -> NDArray[np.float32]:
        """One constant vector per text."""
        import numpy as np

        self.seen += sentences
        return np.ones((len(sentences), 1), dtype=np.float32)


def dry_run(config: SimilarityConfig, encoders: Mapping[str, Encoder]) -> str:
    """What encoding all sets by every model would take."""
    from senteval_runner.estimate import encoding_dry_run

    texts = _Texts()
    _, missing = score_all(config, texts)
    facts = {"not found": ", ".join(missing)} if missing else {}
    return encoding_dry_run(config, encoders, [text.split() for text in texts.seen], facts=facts)


def main(config: SimilarityConfig) -> None:
    """Score every model on every set that is there; print and write the table."""
    from corpora.support.files import write_text
    from senteval_runner.encoders import resolve_encoder

    if config.words is None and config.data is None and config.phrases is None:
        raise UserError("nothing to compare: give --words FOLDER, --data FOLDER or --phrases FILE")
    encoders = {model: resolve_encoder(model, seed=config.seed) for model in config.models}
    if config.dry_run:
        print(dry_run(config, encoders))
        return
    results: dict[str, dict[str, Correlation]] = {}
    missing: list[str] = []
    for model, encoder in encoders.items():
        results[model], missing = score_all(config, encoder)
    write_json(
        config.output / "results.json",
        {
            "config": config_to_json(config),
            "missing": missing,
            "results": {
                model: {name: vars(score) for name, score in scores.items()}
                for model, scores in results.items()
            },
        },
    )
    write_text(config.output / "results.md", table(results))
    print(table(results), end="")
    if missing:
        print(f"not found below {config.words}: {', '.join(missing)}")
    print(f"written: {config.output / 'results.json'}")


def cli(args: list[str] | None = None) -> int:
    """Entry point."""
    return run_command(
        SimilarityConfig,
        main,
        prog="python -m senteval_runner.similarity",
        description=(__doc__ or "").split("\n")[0],
        args=args,
    )


if __name__ == "__main__":
    sys.exit(cli())
