"""Options of ``studies.faq``."""

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from runtime.cli import Count, Epochs, Positive, configuration

Sampling = Literal["retrieved", "random"]
"""How the wrong entries of a training query are chosen."""


@configuration
class FaqConfig:
    """Options of ``studies.faq``."""

    sets: Annotated[tuple[Path, ...], Positional, arg(metavar="FOLDER...")] = ()
    """FAQ sets to evaluate on."""
    preset: Literal["paper"] | None = None
    """paper: the models of UNI's Table 8, negatives retrieved by BERT; the paper's rows stand below."""
    models: tuple[str, ...] = ()
    """Encoders, named as in senteval_runner.run. Transformers are tuned as well."""
    output: Path = Path("runs/faq")
    """Folder for the report and the finished cells."""
    runs: Count = 5
    """Trainings per model (UNI: 5)."""
    sampling: tuple[Sampling, ...] = ("retrieved",)
    """Wrong entries of the training queries: those ranked highest by the retriever (UNI), or random ones."""
    retriever: str | None = None
    """Frozen encoder that retrieves the wrong entries for all models (UNI: BERT); None: each model itself."""
    epochs: Epochs = 2
    """Passes over the training queries."""
    learning_rate: Positive = 2e-5
    """Peak learning rate of Adam; 10 % warm-up, then linear decay to 0."""
    device: str | None = None
    """Where encoders are trained, e.g. cpu or cuda; None is a GPU if there is one."""
