"""Similarity beyond sentences: words, phrases, and sentence pairs with and without a trained head.

    python -m studies.similarity MODEL [A+B ...] --words FOLDER --data SENTEVAL
    python -m studies.similarity MODEL --phrases ppdb-2.0-s-phrasal.gz --semeval2013 FOLDER

Word sets (BURT, Table 2): Spearman's and Pearson's correlation, times 100, between gold scores and cosines.
Phrase pairs: the same against PPDB's score of equivalence on a held-out share. STS-B and SICK-R (BURT,
Table 3): with a regression head trained on the training part (vectors frozen), and by cosine alone.
SemEval-2013 5(a): a classifier tuned on its training pairs. Every pair counts; how many hold a word the
encoder does not know is the encoder's affair and not hidden by dropping rows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import config_to_json, configuration
from corpora.support.errors import UserError
from corpora.support.files import write_json, write_text
from senteval_runner.report.tables import markdown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from senteval_runner.vectors.embed import Encoder, SentenceVectors
    from studies.similarity.phrases import PhraseScores

SENTENCE_TASKS = ("STSBenchmark", "SICKRelatedness")


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """How well cosines follow gold scores; correlations are times 100."""

    spearman: float
    pearson: float
    pairs: int


def correlate(
    encoder: Encoder | SentenceVectors, left: Sequence[str], right: Sequence[str], gold: Sequence[float]
) -> Correlation:
    """Correlation of an encoder's cosines with gold scores; constant cosines count as 0.

    Args:
        encoder: see :func:`senteval_runner.evaluate`; texts reach it as their words at white space.
        left: first texts of the pairs.
        right: second texts.
        gold: scores.
    """
    import numpy as np

    from senteval_runner.protocol.correlation import cosines, pearson, spearman
    from senteval_runner.vectors.embed import as_vectors

    vectors, scores = as_vectors(encoder), np.asarray(gold, dtype=np.float64)
    similarity = cosines(*(vectors([t.split() for t in side]).astype(np.float64) for side in (left, right)))
    if similarity.max() - similarity.min() < 1e-6:  # float32 vectors of equal texts differ in the last bit
        return Correlation(spearman=0.0, pearson=0.0, pairs=len(gold))
    return Correlation(
        spearman=100 * spearman(similarity, scores),
        pearson=100 * pearson(similarity, scores),
        pairs=len(gold),
    )


def word_similarity(encoder: Encoder, folder: Path) -> tuple[dict[str, Correlation], list[str]]:
    """All word sets found below ``folder``, and the names of those that are not there."""
    from corpora.pairs.similarity import SETS, find_set

    found: dict[str, Correlation] = {}
    missing = []
    for name in SETS:
        pairs = find_set(name, folder)
        if pairs is None:
            missing.append(name)
        else:
            found[name] = correlate(encoder, pairs.left, pairs.right, pairs.score)
    return found, missing


def sentence_similarity(
    encoder: Encoder, data: Path, *, seed: int = 1111, heads: bool = True
) -> tuple[dict[str, Correlation], dict[str, str]]:
    """STS-B and SICK-R test pairs: a regression head trained first, and by cosine.

    The head is SentEval's (:mod:`senteval_runner.protocol.relatedness`) on frozen vectors; without ``heads``
    the
    training part is encoded only.

    Returns:
        Scores by set, and why a task has none (missing or bad files).
    """
    from corpora.senteval.files import read_task
    from senteval_runner.evaluation import evaluate_task
    from senteval_runner.protocol.config import get_protocol
    from senteval_runner.vectors.embed import as_vectors

    vectors = as_vectors(encoder)
    found, skipped = {}, {}
    for name in SENTENCE_TASKS:
        try:
            task = read_task(name, data)
            result = evaluate_task(vectors, task, get_protocol("default"), seed) if heads else None
        except UserError as error:
            skipped[name] = str(error)
            continue
        split = task.splits["test"]
        assert split.b is not None
        if result is None:
            for part in task.splits.values():
                vectors(list(part.sentences()))
        else:
            found[f"{name} (trained head)"] = Correlation(
                spearman=100 * result["spearman"], pearson=100 * result["pearson"], pairs=len(split)
            )
        left, right = ([" ".join(tokens) for tokens in side] for side in (split.a, split.b))
        found[f"{name} (untrained)"] = correlate(vectors, left, right, split.y)
    return found, skipped


def phrase_similarity(encoder: Encoder, file: Path, held_out: float = 0.0) -> Correlation:
    """Phrase pairs of a held-out PPDB split against the score of equivalence.

    Args:
        encoder: any encoder.
        file: PPDB 2.0 lines with ``Equivalence`` among their features (the probability the
            authors' classifier gives that entailment relation).
        held_out: score only the share that ``studies.burt --held-out`` keeps out of training; 0 is all.

    Raises:
        UserError: no line carries the feature, or none is in the share.
    """
    from corpora.pairs.labelled import read_ppdb
    from corpora.support.split import in_fraction

    rows = [pair for pair in read_ppdb(file) if "Equivalence" in pair.features()]
    if not rows:
        raise UserError(f"{file}: no row has the feature Equivalence (PPDB 2.0 has it, PPDB 1.0 has not)")
    if held_out:
        rows = [pair for pair in rows if in_fraction(pair.left, held_out)]
    if not rows:
        raise UserError(f"{file}: no row is in the held-out share {held_out:g}; raise --held-out")
    gold = [float(pair.features()["Equivalence"]) for pair in rows]
    return correlate(encoder, [pair.left for pair in rows], [pair.right for pair in rows], gold)


def phrase_classification(
    encoder: Encoder, folder: Path, *, nhid: int = 0, seed: int = 1111, heads: bool = True
) -> PhraseScores | None:
    """SemEval-2013 5(a), tuned on its training pairs (see :mod:`studies.similarity.phrases`).

    Without ``heads`` the pairs are encoded only, and there is no score.
    """
    from corpora.pairs.phrases import read_semeval2013_5a
    from senteval_runner.vectors.embed import as_vectors
    from studies.similarity.phrases import score_phrases

    train, test = read_semeval2013_5a(folder)
    vectors = as_vectors(encoder)
    if not heads:
        for part in (train, test):
            vectors([text.split() for text in (*part.words, *part.phrases)])
        return None
    return score_phrases(vectors, train, test, nhid=nhid, seed=seed)


@configuration
class SimilarityConfig:
    """What is compared."""

    models: Positional[tuple[str, ...]]
    """Model folders, word-vector files, sentence-transformers names, random:dep,const, or A+B of several."""
    words: Path | None = None
    """Folder that holds the word sets (searched recursively)."""
    data: Path | None = None
    """SentEval data folder, for STS-B and SICK-R with and without a trained head."""
    phrases: Path | None = None
    """PPDB 2.0 file of phrase pairs with the feature Equivalence."""
    held_out: float = 0.0
    """Share of --phrases that is scored, the one studies.burt --held-out leaves untrained; 0 is all."""
    semeval2013: Path | None = None
    """Folder of SemEval-2013 task 5(a): word and phrase pairs, a classifier is tuned on the training part."""
    nhid: int = 0
    """Hidden units of that classifier; 0 is logistic regression."""
    output: Path = Path("runs/reports/similarity")
    """Folder for results.json and results.md."""
    seed: int = 1111
    """Seed of random encoders and of the trained heads."""
    dry_run: bool = False
    """Print the configuration and an estimate of the encoding's time from some texts; write nothing."""


def table(results: dict[str, dict[str, Correlation]]) -> str:
    """Markdown: one row per model, Spearman × 100 per set."""
    sets = list(dict.fromkeys(name for scores in results.values() for name in scores))
    rows = [
        [model, *(f"{scores[name].spearman:.1f}" if name in scores else "–" for name in sets)]
        for model, scores in results.items()
    ]
    return markdown(["model", *sets], rows)


@dataclass(kw_only=True)
class Scores:
    """What one model scores, and what could not be scored."""

    correlations: dict[str, Correlation] = field(default_factory=dict)
    classified: PhraseScores | None = None
    """SemEval-2013 5(a)."""
    missing: list[str] = field(default_factory=list)
    """Word sets that are not there."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why a sentence task has no score."""


def score_all(config: SimilarityConfig, encoder: Encoder, *, heads: bool = True) -> Scores:
    """Every set that was asked for and is there; without ``heads`` nothing is trained (a dry run)."""
    scores = Scores()
    if config.words is not None:
        scores.correlations, scores.missing = word_similarity(encoder, config.words)
    if config.phrases is not None:
        found = phrase_similarity(encoder, config.phrases, config.held_out)
        scores.correlations["PPDB phrases"] = found
    if config.data is not None:
        sentences, scores.skipped = sentence_similarity(encoder, config.data, seed=config.seed, heads=heads)
        scores.correlations |= sentences
    if config.semeval2013 is not None:
        options = {"nhid": config.nhid, "seed": config.seed}
        scores.classified = phrase_classification(encoder, config.semeval2013, heads=heads, **options)
    return scores


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
    from senteval_runner.vectors.estimate import encoding_dry_run

    texts = _Texts()
    missing = score_all(config, texts, heads=False).missing
    facts = {"not found": ", ".join(missing)} if missing else {}
    return encoding_dry_run(config, encoders, [text.split() for text in texts.seen], facts=facts)


def phrase_table(results: dict[str, PhraseScores]) -> str:
    """Markdown: SemEval-2013 5(a), one row per model."""
    headers = ["model", "accuracy", "F1", "accuracy by threshold", "F1 by threshold"]
    rows = [
        [model, *(f"{figure:.2f}" for figure in (one.acc, one.f1, one.threshold_acc, one.threshold_f1))]
        for model, one in results.items()
    ]
    return "\nSemEval-2013 5(a), percent, test part:\n\n" + markdown(headers, rows)


def main(config: SimilarityConfig) -> None:
    """Score every model on every set that is there; print and write the table."""
    from senteval_runner.vectors.encoders import resolve_encoder

    _check(config)
    encoders = {model: resolve_encoder(model, seed=config.seed) for model in config.models}
    if config.dry_run:
        print(dry_run(config, encoders))
        return
    scored = {model: score_all(config, encoder) for model, encoder in encoders.items()}
    results = {model: scores.correlations for model, scores in scored.items()}
    classified = {model: scores.classified for model, scores in scored.items() if scores.classified}
    missing = next(iter(scored.values())).missing
    skipped: dict[str, str] = {}
    for scores in scored.values():  # files are missing to all models, vectors may be unusable of one
        skipped |= scores.skipped
    missing_line = f"not found below {config.words}: {', '.join(missing)}" if missing else ""
    if not any(results.values()) and not classified:
        raise UserError("; ".join(filter(None, [missing_line, *skipped.values()])))
    write_json(
        config.output / "results.json",
        {
            "config": config_to_json(config),
            "missing": missing,
            "skipped": skipped,
            "results": {
                model: {name: vars(score) for name, score in scores.items()}
                for model, scores in results.items()
            },
            "semeval2013_5a": {model: vars(scores) for model, scores in classified.items()},
        },
    )
    text = table(results) if any(results.values()) else ""
    text += phrase_table(classified) if classified else ""
    write_text(config.output / "results.md", text)
    print(text, end="")
    for line in filter(None, [missing_line, *(f"skipped {why}" for why in skipped.values())]):
        print(line)
    print(f"written: {config.output / 'results.json'}")


def _check(config: SimilarityConfig) -> None:
    """Wrong options and empty folders, before a model is loaded."""
    from corpora.pairs.similarity import SETS, find_set, published_files

    if not config.models:
        raise UserError("name at least one model")
    if (config.words, config.data, config.phrases, config.semeval2013) == (None,) * 4:
        raise UserError(
            "nothing to compare: give --words FOLDER, --data FOLDER, --phrases FILE or --semeval2013 FOLDER"
        )
    if not 0 <= config.held_out < 1:
        raise UserError(f"--held-out {config.held_out:g}: expected a share from 0 to below 1")
    if config.words is not None and not any(find_set(name, config.words) for name in SETS):
        examples = ", ".join(published_files(name)[0] for name in SETS)
        raise UserError(f"{config.words}: holds none of the word sets; expected e.g. {examples}")


cli = Command(SimilarityConfig, main, "studies.similarity", (__doc__ or "").split("\n")[0])


if __name__ == "__main__":
    sys.exit(cli())
