"""Options of ``studies.passages``."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from runtime.cli import Count, Epochs, NotNegative, Positive, configuration

Feature = Literal["cosine", "bilinear", "uv", "uv-diff-prod"]


@configuration
class PassagesConfig:
    """Options of ``studies.passages``."""

    sets: Annotated[tuple[str, ...], Positional, arg(metavar="[FORMAT=]FOLDER...")] = ()
    """Data sets: folders named wikiqa, trecqa, wikipassageqa, insuranceqa, quasar-t or searchqa, or
    FORMAT=FOLDER."""
    preset: Literal["paper"] | None = None
    """paper: EMP's Table 3."""
    models: tuple[str, ...] = ()
    """Encoders with vectors of their own, named as in senteval_runner.run; A+B puts vectors side by side."""
    backbones: tuple[str, ...] = ()
    """Transformers read layer by layer, named as in studies.layers: Hugging Face names or folders."""
    layers: tuple[str, ...] = ("top,bottom",)
    """Choices of layers: one (-1, top, emb), or several side by side, separated by commas. EMP found the top
    and the bottom layer together to be best."""
    poolings: tuple[str, ...] = ("mean",)
    """Poolings among cls, sep, mean, max, each with every choice of layers."""
    cross: tuple[str, ...] = ()
    """Hugging Face encoders (names or folders) to fine-tune on each set as cross-encoders."""
    features: tuple[Feature, ...] = ("cosine", "bilinear", "uv", "uv-diff-prod")
    """The features of a question's vector u and a passage's v: cosine (not trained), u'Wv, [u; v],
    [u; v; |u-v|; u*v]. The last two have a linear scorer and one with a hidden layer."""
    margin: NotNegative = 0.0
    """Margin of max(0, margin - s(q,p+) + s(q,p-)). EMP prints 0, which allows the trivial solution: a scorer
    that gives every passage one score has loss 0, and no pair teaches once s(q,p+) >= s(q,p-)."""
    keep: Literal["answered", "mixed", "all"] = "answered"
    """Questions of dev and test: answered has a relevant candidate (the usual WikiQA and raw TrecQA), mixed
    an irrelevant one too (TrecQA "clean"), all keeps every one (0 where no candidate is relevant)."""
    runs: Count = 1
    """Training runs per method; several give mean ± standard deviation."""
    epochs: Epochs = 40
    """Most passes of a scorer over the relevant passages of the training questions."""
    learning_rate: Positive = 1e-3
    """Learning rate of the scorers."""
    cross_epochs: Positive = 3.0
    """Passes of a cross-encoder over the training pairs, 16 in a step; the best one on dev is kept."""
    output: Path = Path("runs/passages")
    """Folder for the report and the finished cells."""
    cache: Path = Path("runs/embeddings")
    """Folder of sentence vectors, one subfolder per model."""
    device: str | None = None
    """Where models compute, e.g. cpu or cuda; None is a GPU if there is one."""
