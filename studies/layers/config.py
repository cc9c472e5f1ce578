"""Options of ``python -m studies.layers``; imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro
from annotated_types import Ge, Lt

from corpora.support.config import Count, CountOrNone, configuration
from studies.finetune.config import Pieces


@configuration
class LayersConfig:
    """Evaluate every layer and pooling of encoders on SentEval's tasks."""

    backbones: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="BACKBONE...")]
    """Hugging Face names or folders (sentence-transformers folders too), folders of multiview.train, or
    random:dep,const. Several are compared, each with the first."""
    layers: str = "all"
    """Layers separated by commas: -1 is the top, -12 the bottom of twelve, emb the embedding output; top,
    bottom; of tree encoders: all nodes, or h0, h1, ... the nodes of that height."""
    poolings: tuple[str, ...] = ()
    """Of cls, sep, mean, max (tree encoders: root, mean, max); none given: all the backbone has."""
    concatenate: tuple[str, ...] = ("top,bottom",)
    """Pairs of layers evaluated side by side, e.g. -1,-12 -1,-6; tree encoders have no top and bottom."""
    tasks: str = "all"
    """Tasks and groups, separated by commas, as in senteval_runner.run; all leaves out SNLI."""
    data: Path | None = None
    """Folder with downstream/ and probing/; None is $MULTIVIEW_DATA/senteval, else data/senteval."""
    limit: Annotated[int, Ge(40)] | None = None
    """Rows per split at most, drawn by seed; None takes all. See the report for what a task loses."""
    protocol: Literal["default", "fast", "sklearn"] = "default"
    """How logistic regressions are trained and chosen (senteval_runner.run); fast is too short for maxima."""
    seed: Annotated[int, Ge(0), Lt(2**32)] = 1111
    """Of classifiers, folds and --limit's draw."""
    output: Path = Path("runs/layers/report")
    """Folder for results.json, results.md, report.html, the heat maps and finished cells."""
    cache: Path = Path("runs/layers/vectors")
    """Folder of sentence vectors, one subfolder per backbone and choice of columns."""
    storage: Literal["float16", "float32"] = "float16"
    """Number format of stored vectors: float16 halves the disk space."""
    special_tokens: bool = True
    """Whether mean and max count [CLS], [SEP] and their like; padding never counts."""
    max_length: Pieces = 256
    """Word pieces per sentence, special ones included; longer sentences are cut and counted."""
    heights: tuple[CountOrNone, ...] = (0, 1, 2, 3, 4, 6, 8)
    """Tree encoders: heights that are layers of their own (words without dependents have 0)."""
    table_pooling: Literal["cls", "sep", "mean", "max", "root"] = "mean"
    """Pooling of the table by layer."""
    batch_size: Count = 32
    """Sentences encoded at a time."""
    trees: Path | None = None
    """Tree encoders: tree cache of the sentences (parsing.run senteval); none: they are parsed here."""
    device: str | None = None
    """Where backbones compute, e.g. cpu or cuda; None is a GPU if there is one."""
    threads: Count | None = None
    """Threads of encoding and classifiers; None is torch's default."""
    dry_run: bool = False
    """Print tasks, sentences, disk space and encoding time; evaluate nothing."""
