"""What a training run is: frozen dataclasses, one per part of the program, and the presets.

Each part reads only its own group, whose name an option carries on the command line: ``--encoder.dim 128``.

By default training goes on from ``builtin``; the options of words and encoders are then the start's, and are
refused. With ``--start none`` they hold, and their defaults, as those of the rest, are the preset ``laptop``,
which learns within minutes on two cores: recurrent weights so small
that a tree starts as a weighted bag of words, tables and input weights equal in all views so that these match
each other from the start, and dropout of words, because small corpora are learned by heart. The other presets
are files in ``multiview/presets``: ``paper`` is the system of Simoulin & Crabbé 2021 with the source of each
value, ``gpu`` has the paper's sizes and settings that suit a GPU. Imports no torch.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge

from runtime.cli import (
    Count,
    CountOrNone,
    Epochs,
    Fraction,
    NotNegative,
    Positive,
    Seed,
    config_from_json,
    config_to_json,
    configuration,
)
from runtime.errors import UserError
from runtime.files import check_regular
from runtime.folders import refuse_others

PRESETS = {path.stem: path for path in sorted(Path(__file__).with_name("presets").glob("*.toml"))}
LAPTOP = "laptop"
MOST_VIEWS = 32
"""A model has at most so many: each has its own encoder, and each pair its own term of the loss."""

Case = Literal["exact", "backoff", "lower"]
Boundary = Literal["document", "none"]
Denominator = Literal["paper", "all", "quickthought"]
InitRule = Literal["xavier", "bag"]
Pooling = Literal["root", "mean", "max", "root+mean", "root,mean,max"]
"""How the states of a view's nodes become one vector; the parts between commas are concatenated and divided
by their number."""

BUILTIN_FOLDER = Path(__file__).parent / "builtin" / "dep-const-seq-v8"
"""The encoder in the package."""
DISTIL = "distil:"
"""Before the name of a sentence encoder in ``--vectors``: each word's vector is what it makes of the word."""
BUILTIN_WORDS = "builtin"
"""In place of a file in ``--vectors``: the 40,000 words of the encoder in the package (CC BY-SA 4.0)."""
BUILTIN = "builtin"
"""In ``--start``: the encoder in the package."""
NO_VECTORS = NO_START = NO_VIEWS = "none"
"""In place of a file in ``--vectors``: words are trained from nothing; in ``--start``: all is;
in ``--views``: the read-out of the start is trained alone."""
TRAIN = "train"
"""In place of a file in ``--vectors``: skip-gram vectors are trained on the corpus itself."""


@configuration
class TableConfig:
    """Options of the word tables: which words have vectors of their own, and how these are trained."""

    size: Count = 30_000
    """Most frequent words to train."""
    buckets: CountOrNone = 2_000
    """Hash buckets of other words."""
    case: Case = "lower"
    """How to look up words not listed as written."""
    expand: CountOrNone = 0
    """Words of --vectors to add after training."""
    dim: Count = 256
    """Size E of vectors made here, or of those of --vectors builtin."""
    dropout: Fraction = 0.15
    """Share of words that a step reads as unknown."""
    rate: NotNegative = 5.0
    """Factor on the learning rate."""
    update: Literal["dense", "rows"] = "rows"
    """Adam on whole tables, or on a step's rows alone."""

    @property
    def min_count(self) -> int:
        """How often a word must occur to have a vector; once is too seldom where others share buckets."""
        return 2 if self.buckets else 1


@configuration
class EncoderConfig:
    """Options of the encoder that each view has."""

    dim: Count = 128
    """Hidden size D of each view."""
    start: InitRule = "bag"
    """xavier as in the paper, or bag: trees start as bags of words weighted by their rarity, views alike."""
    pooling: Pooling = "root"
    """How states of nodes become a sentence's vector."""
    engine: Literal["native", "dgl"] = "native"
    """Kernels of our own, or DGL."""
    relations: bool = False
    """Whether dep knows the role of each child."""


@configuration
class ObjectiveConfig:
    """Options of the contrastive loss: what it compares, and how."""

    boundary: Boundary = "document"
    """Whether neighbours must share a document."""
    denominator: Denominator = "all"
    """``paper``: a softmax for each positive, against what is outside the context. ``all``: one softmax over
    positives and negatives. ``quickthought``: as ``all``, and with the sentence itself at score 0."""
    score: Literal["bilinear", "dot", "cosine"] = "dot"
    """S = F W Fᵀ, S = F Fᵀ, or the cosine over 0.05."""
    direction: Literal["forward", "both"] = "both"
    """Anchors from a pair's first view, or from both."""
    same: NotNegative = 0.0
    """Weight of the same-sentence term."""
    teacher: Path | None = None
    """A sentence encoder's vectors to learn from: a .npy of one row per sentence of the trees."""
    views: NotNegative = 1.0
    """With --start: weight of the contrast between views."""
    meaning: NotNegative = 1.0
    """With --start: weight of the contrast of meanings."""
    temperature: Positive | None = None
    """With --start: divides cosines of meanings; None: 0.05, for pairs 0.1."""
    keep: NotNegative | None = None
    """With --start: weight of 1 - cosine of a sentence's meaning and what it was; None: 20, for pairs 5."""


@configuration
class LoopConfig:
    """Options of the training loop: how many steps it takes, and how they are computed."""

    batch: Annotated[Count, Ge(3)] = 200
    """Sentences of a segment, in order."""
    segments: CountOrNone = 0
    """Segments a step, over processes; 0: one each."""
    micro_batch: CountOrNone = 0
    """Sentences encoded at a time; 0: all."""
    epochs: Epochs | None = None
    """Passes over the corpus; None: 3 from a start on, else 8."""
    max_steps: CountOrNone = 0
    """Stop after so many; 0: no limit."""
    max_minutes: NotNegative = 0.0
    """Stop after this many minutes; 0: no limit."""
    learning_rate: Positive | None = None
    """Peak rate of Adam; None: 5e-4 from a start on, else 1e-3."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Nothing but Adam, or warm-up, cosine decay and clipping."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of matrix products."""
    validation: CountOrNone = 2000
    """Sentences held out for validation."""
    patience: CountOrNone = 0
    """Stop after so many validations without a lower loss; 0: never."""


@configuration
class TrainConfig:
    """Options of ``python -m multiview.train``; in Python, :func:`preset` gives those of a preset."""

    preset: str = LAPTOP
    """laptop, paper, gpu, or a TOML."""
    start: str = BUILTIN
    """Model to go on from: a folder, builtin, or none, which trains new views (dep,const by default) and
    takes the options of words, tables and encoders. The new model has the start's licence."""
    views: str = ""
    """Views to train; by default all of the start's that have weights. Others join it; none trains its
    read-out alone. Without a start two or more, of which one may be named twice."""
    trees: Path | None = None
    """A tree cache; None: the only one, or none where there are pairs."""
    pairs: tuple[Path, ...] = ()
    """With --start: files of pairs to learn from, in place of a text or, with --trees, beside it. TSV, CSV or
    JSON Lines with the columns anchor, positive, negative, or sentence1, sentence2, score."""
    validation: Path | None = None
    """Pairs that validate; by default a tenth of --pairs."""
    queries: Path | None = None
    """Table of query and relevant sentence, by which search is measured before and after."""
    words: Literal["trained", "tuned", "fixed", "both"] | None = None
    """Words are trained from nothing, tuned from --vectors on, or fixed as these; both gives two models,
    NAME/trained and NAME/fixed. None: fixed if --vectors names some, else trained."""
    vectors: str = BUILTIN_WORDS
    """builtin (words of the encoder in the package; the model's licence is CC BY-SA 4.0), none, a file,
    distil:MODEL (words as a sentence-transformers model encodes them), train (skip-grams of the corpus)."""
    beside: Literal["words", "nothing"] | None = None
    """What stands beside the views: the mean of their words, or nothing. None: the words where that finds
    more neighbours on the validation set."""
    name: str = ""
    """Name of the model; by default views and preset."""
    output: Path = Path("runs/models")
    """Folder of models."""
    dry_run: bool = False
    """Print sizes and time, and write nothing."""
    device: str = "auto"
    """auto: a GPU if there is one."""
    seed: Seed = 0
    """Seed of the weights and of the order of segments."""
    table: TableConfig = TableConfig()
    """Words and their tables."""
    encoder: EncoderConfig = EncoderConfig()
    """The encoder of each view."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """The contrastive loss."""
    loop: LoopConfig = LoopConfig()
    """Steps and how they are computed."""

    @property
    def view_list(self) -> list[str]:
        """The names of the views in their order."""
        views = self.views or ("" if self.goes_on else "dep,const")
        return [view.strip() for view in views.split(",") if view.strip() and views != NO_VIEWS]

    @property
    def goes_on(self) -> bool:
        """Whether training goes on from a model."""
        return self.start != NO_START

    @property
    def epochs(self) -> int:
        """The number of passes."""
        return self.loop.epochs or (3 if self.goes_on else 8)

    @property
    def learning_rate(self) -> float:
        """The peak rate."""
        return self.loop.learning_rate or (5e-4 if self.goes_on else 1e-3)

    @property
    def meaning_objective(self) -> ObjectiveConfig:
        """The loss where training goes on, with its temperature and the weight of what meanings were.

        A text has far more positives than a file of pairs, and they say less of what is alike. A few pairs
        are soon learned by heart, which a higher temperature delays.
        """
        has_text = self.trees is not None or not self.pairs
        keep, temperature = self.objective.keep, self.objective.temperature
        if keep is None:
            keep = 20.0 if has_text else 5.0
        if temperature is None:
            temperature = 0.05 if has_text else 0.1
        return dataclasses.replace(self.objective, keep=keep, temperature=temperature)

    @property
    def model_name(self) -> str:
        """The name, by default one of views and preset."""
        subject = Path(self.start).name if self.goes_on else "-".join(self.view_list)
        return self.name or f"{subject}-{Path(self.preset).stem}"

    @property
    def folder(self) -> Path:
        """The folder that the model is written to."""
        return self.output / self.model_name

    @property
    def words_mode(self) -> Literal["trained", "tuned", "fixed", "both"]:
        """The choice of --words; without it words stay fixed if --vectors names some."""
        return self.words or ("trained" if self.vectors == NO_VECTORS else "fixed")

    def check(self) -> None:
        """Raise a UserError if values do not go together, or if the folder holds something else."""
        if Path(self.name).name != self.name or self.name == ".." or not self.name.isprintable():
            raise UserError(f"--name {self.name}: is no plain name; --output says where the model goes")
        if not self.dry_run:
            refuse_others(self.folder, "views")
        if self.loop.patience and not self.loop.validation:
            raise UserError(f"--loop.patience {self.loop.patience}: needs --loop.validation above 0")
        if self.goes_on:
            self._check_start()
            return
        if self.pairs:
            raise UserError("--pairs: needs a model to go on from; leave --start at builtin, or name one")
        if not 2 <= len(self.view_list) <= MOST_VIEWS:
            views = f"--views {self.views[:80]}: {len(self.view_list)} of them"
            raise UserError(f"{views}; needs two to {MOST_VIEWS}, e.g. dep,const")
        if self.encoder.dim % 2 and "seq" in self.view_list:
            raise UserError(
                f"--encoder.dim {self.encoder.dim}: must be even for seq (half for each direction)"
            )
        # Before any work: both and expand would look for the file after hours of training.
        needs_vectors = self.words_mode != "trained" or self.table.expand
        is_file = self.vectors not in (BUILTIN_WORDS, TRAIN) and not self.vectors.startswith(DISTIL)
        if needs_vectors and is_file and (self.vectors == NO_VECTORS or not Path(self.vectors).exists()):
            raise UserError(
                f"--words {self.words_mode}, --table.expand {self.table.expand}: need --vectors, which is "
                f"{self.vectors}: a file (GloVe: https://nlp.stanford.edu/projects/glove/), "
                f"{DISTIL}MODEL or {TRAIN}"
            )
        if self.table.expand and self.vectors in (BUILTIN_WORDS, TRAIN):
            raise UserError(
                f"--table.expand {self.table.expand}: --vectors {self.vectors} adds no words; give "
                f"a file or {DISTIL}MODEL"
            )

    def _check_start(self) -> None:
        """Refuse options that a start decides."""
        defaults = options_of(TrainConfig())
        for name, value in options_of(self).items():
            if name.startswith(OPTIONS_OF_NEW_VIEWS) and value != defaults[name]:
                raise UserError(
                    f"--{name} {value}: is of new views, --start {self.start} has its own; give --start none"
                )
        if self.validation is not None and not self.pairs:
            raise UserError(f"--validation {self.validation}: validates --pairs, and there are none")


def preset(name: str, **changes: Any) -> TrainConfig:
    """Return the configuration of a preset, with some fields changed; the way to get one in Python.

    It is ``laptop``, ``paper``, ``gpu``, or a TOML file of options that differ from ``laptop``'s. A UserError
    names a preset or file that does not exist, and a value that is wrong.
    """
    values: dict[str, Any] = {}
    if name != LAPTOP:
        path = PRESETS.get(name, Path(name))
        try:
            check_regular(path)
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UserError):
            names = ", ".join([LAPTOP, *PRESETS])
            raise UserError(f"--preset {name}: choose one of {names}, or give a TOML file") from None
        except ValueError as error:
            raise UserError(f"{path}: not TOML ({error})") from None
    config = config_from_json(TrainConfig, {**values, "preset": name}, where=f"--preset {name}")
    return dataclasses.replace(config, **changes)


def find_trees(trees: Path | None) -> Path:
    """Return ``--trees``, else the only tree cache under ``runs/trees``; a UserError lists several."""
    if trees is not None:
        return trees
    root = Path("runs/trees")
    caches = sorted(path.parent for path in root.glob("*/manifest.json"))
    if len(caches) != 1:
        folders = " | ".join(map(str, caches)) or "none; make one with python -m parsing.run"
        raise UserError(f"--trees: needed unless {root} has just one tree cache; it has {folders}")
    return caches[0]


OPTIONS_OF_NEW_VIEWS = (
    *("words", "vectors", "beside", "table.", "encoder.", "objective.denominator", "objective.score"),
    *("objective.direction", "objective.same", "objective.teacher"),
)
"""Beginnings of the options that have no meaning where training goes on from a model."""
OPTIONS_FREE_TO_CHANGE = (
    "preset",
    "trees",
    "name",
    "output",
    "dry-run",
    "device",
    "queries",
    "loop.max-minutes",
)
"""Options that do not change what the weights become, and the time limit: a resumed run may change them."""


def options_of(config: TrainConfig) -> dict[str, Any]:
    """Return every value, as JSON, by its name on the command line, without the dashes in front."""
    options: dict[str, Any] = {}
    for name, value in config_to_json(config).items():
        if isinstance(value, dict):
            options |= {f"{name}.{option}": option_value for option, option_value in value.items()}
        else:
            options[name] = value
    return {name.replace("_", "-"): value for name, value in options.items()}


def decisive_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return as text the options that determine the weights; a run that resumes must have the same."""
    return {name: str(value) for name, value in options.items() if name not in OPTIONS_FREE_TO_CHANGE}
