"""What a training run is: frozen dataclasses, one per part of the program, and four presets.

Each part reads only its own group: the word tables ``vocabulary`` and ``table``, the encoders ``encoder``,
and so on. On the command line an option carries the name of its group: ``--encoder.dim 128``.

The defaults are the preset ``laptop``, which learns within minutes on two cores. ``paper`` is the system of
Simoulin & Crabbé 2021 (:mod:`multiview.paper`). The paper reports 4800 dimensions but not how they are made
up, so both readings are presets: ``paper`` (two models of 2 views x 1200, one with trained and one with fixed
words, concatenated) and ``paper-2400`` (one model of 2 views x 2400). ``gpu`` has the paper's sizes and
settings that suit a GPU. Imports no torch.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge

from corpora.support.config import (
    Count,
    CountOrNone,
    Fraction,
    NotNegative,
    Positive,
    configuration,
)
from corpora.support.errors import UserError
from multiview.vector_names import DISTIL, TAUGHT, TRAIN, has_input

Preset = Literal["laptop", "paper", "paper-2400", "gpu"]
Case = Literal["exact", "backoff", "lower"]
Boundary = Literal["document", "none"]
Denominator = Literal["paper", "all"]
SelfScore = Literal["minus-inf", "zero"]
Pooling = Literal["root", "mean", "max", "root+mean", "root,mean,max"]
"""How states become a vector; what commas separate is concatenated and divided by its number."""

# How the laptop's defaults were chosen: neighbour recall@1 on held-out documentation after 45 CPU seconds on
# 22k sentences. An untrained encoder has 0.09 to 0.10. Views with equal tables but different input weights
# do not match each other at first: 0.113. With equal input weights it is 0.122; with recurrent weights at a
# fifth, so that a tree starts as a weighted bag of words, 0.132; in lower case 0.140. Xavier tables at the
# paper's rate are still below the untrained encoder by then. After that, over-fitting is the problem: on
# 43k sentences the validation loss rose from 4.88 to 5.74 in 7 epochs. Word dropout and a lower rate for the
# tables keep it under 5.03.


@configuration
class VocabularyConfig:
    """Which words have a vector of their own."""

    size: Count = 30_000
    """Trained words: the most frequent ones of the corpus."""
    min_count: Count = 2
    """Occurrences a word needs to be trained."""
    buckets: CountOrNone = 2_000
    """Hash buckets for other words; 0: one unknown word."""
    case: Case = "lower"
    """How to look up a word that is not listed as written."""
    vector_words: Count = 2_000_000
    """Pre-trained vectors to read at most, from the top of the file."""
    expand: CountOrNone = 0
    """Expand trained words after training by this many of --vectors, from the top (distil: the corpus's most
    frequent words, rare ones included); 0: no expansion."""


@configuration
class TableConfig:
    """The trained word tables, one per view."""

    dim: Count = 128
    """Size E of word vectors that are made here; those of a file keep the size they have."""
    init: Literal["xavier", "unit"] = "unit"
    """Initial values: Xavier uniform, or standard normal scaled by smooth inverse frequency."""
    equal: bool = True
    """The tables of all views start equal."""
    dropout: Fraction = 0.15
    """Fraction of a training step's words that are replaced by the unknown word."""
    dropout_views: Literal["shared", "each"] = "shared"
    """Replace the same words in all views, or draw them for each view."""
    identity: NotNegative = 0.0
    """Add a random vector, this many times as long, to each one that tuned words start from, and keep its
    length: a word is then more like itself than like its synonyms, which helps to find neighbours."""
    rate: NotNegative = 5.0
    """Factor on the learning rate of the tables."""
    update: Literal["dense", "rows"] = "rows"
    """Update whole tables, or only the rows a step uses (the moments of other rows stay)."""


def parts_of_pooling(pooling: Pooling) -> int:
    """How many times a view's vector is as long as a state."""
    return pooling.count(",") + 1


@configuration
class EncoderConfig:
    """The encoder of each view."""

    dim: Count = 128
    """Hidden size D of each view."""
    forget_bias: float = 2.0
    """Initial bias of the trees' forget gates."""
    recurrent_scale: float = 0.2
    """Factor on the initial recurrent weights of tree views."""
    equal_inputs: bool = True
    """Tree views start from equal input weights."""
    pooling: Pooling = "root"
    """A sentence's vector: the root's state, the mean or maximum over all nodes, root plus mean, or all
    three concatenated."""
    engine: Literal["native", "torch", "dgl"] = "native"
    """How trees are computed: the device's fastest kernels, the portable ones, or the DGL reference."""

    @property
    def width(self) -> int:
        """Size of a view's sentence vectors."""
        return self.dim * parts_of_pooling(self.pooling)


@configuration
class ObjectiveConfig:
    """Which published variant of the objective to use."""

    boundary: Boundary = "document"
    """Whether neighbours must share a document."""
    denominator: Denominator = "all"
    """Each positive against the sentences outside the context, or one softmax over all."""
    score: Literal["bilinear", "dot", "cosine"] = "dot"
    """S = F W Fᵀ, S = F Fᵀ, or the cosine divided by the temperature."""
    temperature: Positive = 0.05
    """Divides cosines, those of the same-sentence term included."""
    learn_temperature: bool = False
    """Train the temperature, from this value on."""
    same: NotNegative = 0.0
    """Weight of the same-sentence term: view i of a sentence finds view j of the same; 0: none."""
    duplicates: Literal["negatives", "masked"] = "negatives"
    """Whether a sentence with the words of the anchor or of its neighbour counts as a negative."""
    direction: Literal["forward", "both"] = "both"
    """Take anchors from the first view of each pair, or from both views in turn."""
    self_score: SelfScore = "minus-inf"
    """Leave the sentence itself out, or give it score 0 as QuickThought's code does."""
    negatives: Literal["segment", "step"] = "segment"
    """Contrast within a segment, or over all segments of the step, with gradients."""


@configuration
class TeacherConfig:
    """A frozen sentence encoder that the views learn from, as one more view."""

    vectors: Path | None = None
    """Vectors of the corpus's sentences, a folder of parts; None: no teacher."""
    contrast: NotNegative = 1.0
    """Weight of the term by which each view finds the teacher's vector of its sentence."""
    similarity: NotNegative = 10.0
    """Weight of the squared difference between the model's cosines and the teacher's."""
    temperature: Positive = 0.05
    """Divides the cosines of the first term."""


@configuration
class OptimiserConfig:
    """Adam and its learning rate."""

    learning_rate: Positive = 1e-3
    """Adam's learning rate."""
    warmup_steps: CountOrNone = 20
    """Steps over which the learning rate rises linearly."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Learning rate after the warm-up; cosine falls to a tenth."""
    clip: NotNegative = 5.0
    """Clip the whole gradient to this norm; 0: no clipping."""


@configuration
class LoopConfig:
    """The size of a step, the number of steps, and how they are computed."""

    batch: Annotated[int, Ge(2)] = 200
    """Sentences of a segment; they follow each other in the text and are contrasted with each other."""
    segments: Count = 1
    """Segments per step, divided among the processes of torchrun."""
    micro_batch: CountOrNone = 0
    """Sentences encoded at a time (gradient caching); 0: a whole segment."""
    epochs: Count = 8
    """Passes over the training part."""
    max_steps: CountOrNone = 0
    """Stop after this many steps; 0: no limit."""
    max_minutes: NotNegative = 0.0
    """Stop after this many minutes of training, counted over resumptions; 0: no limit. The learning rate
    then also falls with the clock."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic of the matrix products; bfloat16 uses autocast."""
    threads: CountOrNone = 0
    """CPU threads; 0: one, or the idle cores where products are large. A run keeps the number."""
    prefetch: Count = 4
    """Steps that the loader thread prepares ahead."""
    read_every: CountOrNone = 0
    """Steps between two readings of loss and metrics from the device, which wait for it; 0: each step on a
    CPU, every 20 on a GPU. Weights and log are the same."""
    checkpoint_every: Count = 200
    """Steps between checkpoints."""
    keep: Count = 2
    """Checkpoints kept."""


@configuration
class ValidationConfig:
    """The validation set and early stopping."""

    sentences: CountOrNone = 2000
    """Size of the validation set: whole documents from all over the corpus."""
    every: CountOrNone = 0
    """Steps between validations; 0: ten, spread evenly over the run."""
    patience: CountOrNone = 0
    """Stop after this many validations that are not the best so far (the start counts); 0: never."""
    select: Literal["recall", "both"] = "recall"
    """Which step is kept: that of the highest recall@1, or of the highest recall@1 divided by loss."""


@configuration
class TrainConfig:
    """Options of ``python -m multiview.train``; in Python, :func:`preset` gives those of a preset."""

    preset: Preset = "laptop"
    """Where the other defaults come from; --help shows those of the preset given."""
    config: Path | None = None
    """Take the defaults from the train.json of an earlier run instead of a preset."""
    views: str = "dep,const"
    """Views in order, separated by commas; at least two, repeats allowed."""
    trees: Path | None = None
    """Tree cache to train on; by default the only one in runs/trees."""
    words: Literal["trained", "tuned", "fixed", "both"] = "trained"
    """Trained word tables, trained tables that start from --vectors, fixed vectors, or trained and fixed
    (two models in one folder)."""
    vectors: str | None = None
    """Vectors of tuned and fixed words: a file (GloVe, word2vec or fastText text, word2vec .bin); a model2vec
    folder; distil:MODEL, the corpus's words encoded by a sentence-transformers model; taught:MODEL, these
    fitted to its vectors of sentences; train, skip-gram vectors of the corpus."""
    init: Path | None = None
    """Continue this model (a folder, or builtin), whose views, encoders and words then are the defaults; the
    corpus's most frequent words are added to trained ones, and with --words tuned to fixed ones, too. The
    result is read as the model is: --encoder.pooling counts in training alone."""
    name: str = ""
    """Name of the model; by default the views and the preset."""
    output: Path = Path("runs/models")
    """Folder of models; the model goes to OUTPUT/NAME."""
    fresh: bool = False
    """Delete an earlier run of this name instead of resuming it."""
    dry_run: bool = False
    """Print configuration, sizes and a time estimate from a few real steps; write nothing."""
    device: str = "auto"
    """cpu, cuda, cuda:1, ...; auto takes a GPU if there is one."""
    seed: int = 0
    """Seed of the weights and of the order of segments."""
    vocabulary: VocabularyConfig = VocabularyConfig()
    """Which words have a vector of their own."""
    table: TableConfig = TableConfig()
    """The trained word tables."""
    encoder: EncoderConfig = EncoderConfig()
    """The encoder of each view."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """The contrastive loss."""
    teacher: TeacherConfig = TeacherConfig()
    """A sentence encoder to learn from."""
    optimiser: OptimiserConfig = OptimiserConfig()
    """Adam and its learning rate."""
    loop: LoopConfig = LoopConfig()
    """Steps, limits, checkpoints."""
    validation: ValidationConfig = ValidationConfig()
    """The validation set."""

    @property
    def view_list(self) -> list[str]:
        """The views in order."""
        return [view.strip() for view in self.views.split(",") if view.strip()]

    @property
    def nearest_preset(self) -> Preset:
        """The preset that differs from these values in the fewest options; among equals, the one named.

        Records use this, because ``TrainConfig(preset="paper")`` in Python has the values of ``laptop``.
        """
        return min(
            _PRESETS.values(), key=lambda p: (len(differing_options(p, self)), p.preset != self.preset)
        ).preset

    @property
    def model_name(self) -> str:
        """The name, or one made of views and preset."""
        return self.name or f"{'-'.join(self.view_list)}-{self.nearest_preset}"

    @property
    def folder(self) -> Path:
        """Where the model goes."""
        return self.output / self.model_name

    @property
    def wants_vectors(self) -> bool:
        """Whether vectors are read or made."""
        return (self.words != "trained" and self.init is None) or self.vocabulary.expand > 0

    @property
    def start_name(self) -> str:
        """What to call the weights before the first step."""
        return "untrained" if self.init is None else "initial"

    @property
    def has_vectors(self) -> bool:
        """Whether ``vectors`` names what is here, or a way to make them."""
        return has_input(self.vectors or "")

    @property
    def dimensions(self) -> int:
        """Size of a sentence vector over all views and models."""
        return (2 if self.words == "both" else 1) * len(self.view_list) * self.encoder.width

    def check(self) -> None:
        """Refuse values that do not go together; single values are checked by their types.

        Raises:
            UserError: one line with the option, its value and what to do.
        """
        if len(self.view_list) < 2:
            raise UserError(f"--views {self.views}: needs at least two views, e.g. dep,const")
        if self.encoder.dim % 2 and "seq" in self.view_list:
            raise UserError(
                f"--encoder.dim {self.encoder.dim}: must be even for seq (half for each direction)"
            )
        if self.wants_vectors and self.vectors is None:
            option = f"--words {self.words}"
            if self.words == "trained":
                option = f"--vocabulary.expand {self.vocabulary.expand}"
            raise UserError(f"{option}: needs --vectors (a file, {DISTIL}MODEL or {TRAIN})")
        if self.table.identity and self.words != "tuned":
            raise UserError(f"--table.identity {self.table.identity}: is for --words tuned, not {self.words}")
        if self.init is not None and self.folder.resolve() in (self.init / "in").resolve().parents:
            raise UserError(f"--init {self.init}: is where this run would write; give another --name")
        # Checked here because "both" reads the file only after it has trained a whole model.
        if self.wants_vectors and not self.has_vectors:
            raise UserError(
                f"--vectors {self.vectors}: no such file; it wants GloVe, word2vec or fastText vectors, a "
                f"model2vec folder, {DISTIL}MODEL, {TAUGHT}MODEL or {TRAIN}"
            )
        if self.vocabulary.expand and self.vectors == TRAIN:
            raise UserError(
                f"--vocabulary.expand {self.vocabulary.expand}: --vectors {TRAIN} knows the trained words "
                f"alone; give a file, a model2vec folder or {DISTIL}MODEL"
            )


# The paper's size, before its own rules.
_LARGE = TrainConfig(
    vocabulary=VocabularyConfig(size=50_000, min_count=1, buckets=0, case="backoff"),
    table=TableConfig(dim=300, init="xavier", equal=False, dropout=0.0, rate=1.0, update="dense"),
    encoder=EncoderConfig(dim=1200, forget_bias=0.0, recurrent_scale=1.0, equal_inputs=False),
    objective=ObjectiveConfig(denominator="paper", score="bilinear", direction="forward"),
    optimiser=OptimiserConfig(learning_rate=5e-4, warmup_steps=0, schedule="constant"),
    loop=LoopConfig(batch=400, epochs=1),
    validation=ValidationConfig(sentences=4000),
)
# Nothing is on that the paper does not have. multiview/paper.py says where each value stands in it.
_PAPER = dataclasses.replace(
    _LARGE,
    preset="paper",
    words="both",
    vocabulary=dataclasses.replace(_LARGE.vocabulary, case="exact", expand=2_000_000),
    objective=dataclasses.replace(_LARGE.objective, boundary="none"),
    optimiser=dataclasses.replace(_LARGE.optimiser, clip=0.0),
    validation=ValidationConfig(sentences=0),
)
_PRESETS: dict[str, TrainConfig] = {
    "laptop": TrainConfig(),
    "paper": _PAPER,
    "paper-2400": dataclasses.replace(
        _PAPER,
        preset="paper-2400",
        words="trained",
        encoder=dataclasses.replace(_PAPER.encoder, dim=2400),
    ),
    "gpu": dataclasses.replace(
        _LARGE,
        preset="gpu",
        table=dataclasses.replace(_LARGE.table, update="rows"),
        optimiser=dataclasses.replace(_LARGE.optimiser, warmup_steps=500, schedule="cosine"),
        loop=dataclasses.replace(_LARGE.loop, segments=4, precision="bfloat16", checkpoint_every=1000),
    ),
}


def preset(name: str, **changes: Any) -> TrainConfig:
    """The configuration of a preset; the way to get one in Python.

    Args:
        name: ``laptop``, ``paper``, ``paper-2400`` or ``gpu``.
        changes: fields to change, as for :func:`dataclasses.replace`.

    Raises:
        UserError: no preset of that name.
    """
    if name not in _PRESETS:
        raise UserError(f"--preset {name}: choose one of {', '.join(_PRESETS)}")
    return dataclasses.replace(_PRESETS[name], **changes)


# Options that do not change what the weights become; a resumed run may change them.
_FREE_OPTIONS = (
    *("config", "preset", "trees", "name", "output", "fresh", "dry-run", "device"),
    *(
        "loop.max-minutes",
        "loop.prefetch",
        "loop.read-every",
        "loop.keep",
        "loop.checkpoint-every",
        "loop.threads",
    ),
)


def options_of(config: object, group: str = "") -> dict[str, Any]:
    """Every value of a configuration by its name on the command line, without the dashes in front."""
    options: dict[str, Any] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value, name = getattr(config, field.name), group + field.name.replace("_", "-")
        options |= options_of(value, f"{name}.") if dataclasses.is_dataclass(value) else {name: value}
    return options


def differing_options(stored: TrainConfig, wanted: TrainConfig) -> list[str]:
    """Options on which a stored run and the wanted one disagree, as ``loop.batch 400 -> 200``."""
    before, now = options_of(stored), options_of(wanted)
    return [
        f"{name} {before[name]} -> {now[name]}"
        for name in before
        if name not in _FREE_OPTIONS and str(before[name]) != str(now[name])
    ]
