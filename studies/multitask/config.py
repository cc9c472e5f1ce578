"""Options of ``studies.multitask``."""

from pathlib import Path
from typing import Literal

from runtime.cli import Count, CountOrNone, Epochs, Positive, Seed, configuration


@configuration
class MultitaskConfig:
    """Fine-tune one encoder on several tasks, one after the other, and score all tasks after every stage."""

    output: Path
    """Result: the report, and per stage an ordinary sentence-transformers folder under stages/."""
    preset: Literal["grid", "paper"] | None = None
    """grid: the thirteen configurations of SEQ-MT's Table 1; paper: its backbone and data splits as well."""
    stages: tuple[str, ...] = ("SA-P-STS(M)",)
    """Configurations, each its tasks in order under SEQ-MT's names, by default its best row: SA (sentiment),
    P (paraphrase), STS, NLI. P, STS, NLI read a pair jointly (BERT), P(C), P(M), P(X) separately with [CLS],
    mean or max pooling (SBERT); P(M)* adds u*v to u, v, |u-v|; P[sub] and P[sub](M) train on a fresh tenth
    each epoch."""
    backbone: str | None = None
    """Hugging Face name, local folder (sentence-transformers too), or tiny (from scratch)."""
    data: Path | None = None
    """Folder with senteval/downstream (SST-5, STS-B), nli, paraphrase; None is $MULTIVIEW_DATA, else data."""
    quora: Path | None = None
    """Paraphrase pairs, a tenth each for dev and test: the published Quora .tsv, or .tsv(.gz) with columns
    label, sentence1, sentence2; None uses the data folder's tweets."""
    nli: Path | None = None
    """NLI pairs: published SNLI/MultiNLI .jsonl, or .tsv with columns label, sentence1, sentence2; None uses
    the data folder's part of SNLI."""
    nli_dev: Path | None = None
    """NLI pairs that choose the best epoch; None holds out a tenth of the training pairs."""
    nli_test: Path | None = None
    """NLI pairs for the scores of the best configurations; None holds out another tenth."""
    splits: Literal["published", "paper"] = "published"
    """Where files of dev and test are not given. published: STS-B's own parts; a tenth each of the Quora and
    NLI pairs, by a hash of the first text. paper: STS-B's parts together, and Quora's one file, are split at
    random in SEQ-MT's proportions (STS-B's test pairs are then trained on)."""
    limit: CountOrNone = 0
    """Most training examples per task (a fixed random choice); 0 takes all."""
    dev_rows: CountOrNone = 1500
    """Most dev examples per task (a fixed random choice); 0 takes all."""
    epochs: Epochs = 5
    """Passes per stage (SEQ-MT: 5); the one with the best overall dev score over the tasks trained so far is
    kept."""
    batch_size: Count = 32
    """Examples per step (SEQ-MT: 32)."""
    learning_rate: Positive = 1e-5
    """Constant rate of AdamW (SEQ-MT)."""
    seed: Seed = 1
    """Seed of new weights, batch order, sampling and dropout."""
