"""The options of training, the two programs that ``--start`` chooses between, and the presets.

``python -m multiview.train`` is two programs: training that goes on from a model, and training of new views
from nothing. Options are declared in classes named ``...Options``, which have no methods.
:class:`SharedOptions` has those of both programs, :class:`ContinueOptions` and :class:`NewViewsOptions` those
of one. The command line takes them all, as a :class:`TrainConfig`. :meth:`TrainConfig.resolve` returns the
configuration of one program, a :class:`ContinueConfig` or a :class:`NewViewsConfig`, which has the options of
this program alone, checks them, and derives further values from them. All code behind the command line gets
this one (:data:`ProgramConfig`). The options of word tables, encoders and losses are in
:mod:`multiview.model_config`. This module imports no torch.

The defaults are the preset ``laptop``. New views learn within minutes on two cores, because trees begin as
bags of words: all views are the same at first, so they match each other from the first step on. Words are
dropped, because a small corpus would be learned by heart. ``multiview/presets`` has the other presets.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge

from multiview.model_config import (
    BUILTIN,
    MAX_VIEWS,
    EncoderConfig,
    MeaningConfig,
    ObjectiveConfig,
    TableConfig,
)
from runtime.cli import (
    Count,
    CountOrNone,
    Epochs,
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
DISTIL = "distil:"
"""The prefix in ``--vectors`` of a sentence encoder's name; the encoder then encodes each word by itself."""
BUILTIN_WORDS = "builtin"
"""The value of ``--vectors`` that chooses the 40,000 words of the encoder in the package (CC BY-SA 4.0)."""
NO_VECTORS = NO_START = NO_VIEWS = "none"
"""The value by which ``--vectors`` starts words at random, ``--start`` starts all weights at random, and
``--views`` trains only the read-out of the start."""
TRAIN = "train"
"""The value of ``--vectors`` that trains skip-gram vectors on the corpus itself."""


@configuration
class LoopConfig:
    """Options of the training loop: how many steps it takes, and how they are computed."""

    batch: Annotated[Count, Ge(3)] = 200
    """Sentences of a segment, in order; of pairs, twice the rows of a step."""
    segments: CountOrNone = 0
    """Segments a step, over processes; 0: one each."""
    micro_batch: CountOrNone = 0
    """Sentences encoded at a time; 0: all."""
    epochs: Epochs | None = None
    """Passes over the corpus; None: 3 from a start on, else 8."""
    max_steps: CountOrNone = 0
    """Stop after this many steps; 0: no limit."""
    max_minutes: NotNegative = 0.0
    """Stop after this many minutes; 0: no limit."""
    learning_rate: Positive | None = None
    """Peak rate of Adam; None: 5e-4 from a start on, else 1e-3."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """cosine: warm-up, cosine decay and clipping; constant: one rate, and no clipping."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of matrix products."""
    validation: CountOrNone = 2000
    """Sentences held out for validation."""
    patience: CountOrNone = 0
    """Stop after this many validations that are no better: none has a lower loss or, with graded pairs
    alone, a higher rank correlation; 0: never."""


@configuration
class SharedOptions:
    """Options that both programs of ``python -m multiview.train`` have."""

    preset: str = LAPTOP
    """laptop, paper, gpu, or a TOML."""
    views: str = ""
    """Views to train; by default all of the start's that have weights. Others join it; none trains its
    read-out alone. Without a start two or more, of which one may be named twice."""
    trees: Path | None = None
    """A tree cache; None: the only one, or none where there are pairs."""
    queries: Path | None = None
    """Table of query and relevant sentence, by which search is measured before and after."""
    name: str = ""
    """Name of the model; by default START-PRESET, and with ``--start none`` VIEWS-PRESET."""
    output: Path = Path("runs/models")
    """Folder of models."""
    dry_run: bool = False
    """Print sizes and time, and write nothing."""
    device: str = "auto"
    """auto: a GPU if there is one."""
    seed: Seed = 0
    """Seed of the weights and of the order of segments."""
    loop: LoopConfig = LoopConfig()
    """Steps and how they are computed."""


@configuration
class ContinueOptions(SharedOptions):
    """Options of training that goes on from a model, on a text, on pairs, or on both."""

    start: str = BUILTIN
    """Model to go on from: a folder, builtin, or none, which trains new views (dep,const by default) and
    takes the options of words, tables and encoders. The licences of start, text and pairs count for the
    new model."""
    pairs: tuple[Path, ...] = ()
    """Going on from a model: files of pairs to learn from, in place of a text or, with --trees, beside it.
    TSV, CSV or JSON Lines with the columns anchor, positive, negative, or sentence1, sentence2, score."""
    validation: Path | None = None
    """Pairs that validate; by default a tenth of --pairs."""
    objective: MeaningConfig = MeaningConfig()
    """The contrastive loss."""


@configuration
class NewViewsOptions(SharedOptions):
    """Options of training new views by contrast with each other, as in Simoulin & Crabbé 2021."""

    words: Literal["trained", "tuned", "fixed", "both"] | None = None
    """Words are trained from nothing, tuned from --vectors on, or fixed as these; both gives two models,
    NAME/trained and NAME/fixed. None: fixed if --vectors names some, else trained."""
    vectors: str = BUILTIN_WORDS
    """builtin (words of the encoder in the package; the model's licence is CC BY-SA 4.0), none, a file,
    distil:MODEL (words as a sentence-transformers model encodes them), train (skip-grams of the corpus)."""
    beside: Literal["words", "nothing"] | None = None
    """What stands beside the views: the mean of their words, or nothing. None: the words where that finds
    more neighbours on the validation set."""
    table: TableConfig = TableConfig()
    """Words and their tables."""
    encoder: EncoderConfig = EncoderConfig()
    """The encoder of each view."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """The contrastive loss."""


@configuration
class SharedConfig(SharedOptions):
    """The checks and the derived values that the configurations of both programs have in common."""

    default_epochs: ClassVar[int] = 3
    """The number of epochs without ``--loop.epochs``."""
    default_rate: ClassVar[float] = 5e-4
    """The learning rate without ``--loop.learning-rate``."""

    @property
    def view_list(self) -> list[str]:
        """The names of the views in their order."""
        return [view.strip() for view in self.views.split(",") if view.strip() and self.views != NO_VIEWS]

    @property
    def epochs(self) -> int:
        """The number of passes over the corpus."""
        return self.loop.epochs or self.default_epochs

    @property
    def learning_rate(self) -> float:
        """The largest learning rate of the schedule."""
        return self.loop.learning_rate or self.default_rate

    @property
    def model_name(self) -> str:
        """The name of the model; without ``--name`` it is made of the views and the preset."""
        return self.name or f"{'-'.join(self.view_list)}-{Path(self.preset).stem}"

    @property
    def folder(self) -> Path:
        """The folder that the model is written to."""
        return self.output / self.model_name

    @property
    def models(self) -> Sequence[Self]:
        """The configurations of the models that are trained, one after the other."""
        return [self]

    @property
    def reads_text(self) -> bool:
        """Whether the training learns from a text, whose trees are ``--trees``."""
        return True

    def check(self) -> None:
        """Raise UserError if options contradict each other, or if the folder holds anything but a model."""
        if Path(self.name).name != self.name or self.name == ".." or not self.name.isprintable():
            raise UserError(f"--name {self.name}: is no plain name; --output says where the model goes")
        if not self.dry_run:
            refuse_others(self.folder, "views")
        if self.loop.patience and not self.loop.validation and self.reads_text:
            raise UserError(f"--loop.patience {self.loop.patience}: needs --loop.validation above 0")


@configuration
class ContinueConfig(ContinueOptions, SharedConfig):
    """Training that goes on from a model."""

    @property
    def model_name(self) -> str:
        """The name of the model; without ``--name`` it is made of the start and the preset."""
        return self.name or f"{Path(self.start).name}-{Path(self.preset).stem}"

    @property
    def reads_text(self) -> bool:
        """Whether the training learns from a text: always, unless it has pairs and no ``--trees``."""
        return self.trees is not None or not self.pairs

    def check(self) -> None:
        """Also raise UserError if a view is named twice, or if ``--validation`` is given without pairs."""
        super().check()
        if len(set(self.view_list)) < len(self.view_list):
            raise UserError(f"--views {self.views}: names a view twice; name each once")
        if self.validation is not None and not self.pairs:
            raise UserError(f"--validation {self.validation}: validates --pairs, and there are none")


@configuration
class NewViewsConfig(NewViewsOptions, SharedConfig):
    """Training of new views."""

    default_epochs: ClassVar[int] = 8
    default_rate: ClassVar[float] = 1e-3

    @property
    def view_list(self) -> list[str]:
        """The names of the views in their order."""
        return super().view_list if self.views else ["dep", "const"]

    @property
    def words_mode(self) -> Literal["trained", "tuned", "fixed", "both"]:
        """The choice of ``--words``; by default fixed if ``--vectors`` names vectors, else trained."""
        return self.words or ("trained" if self.vectors == NO_VECTORS else "fixed")

    @property
    def models(self) -> Sequence[Self]:
        """This configuration, or with ``--words both`` one with trained words and one with fixed words."""
        if self.words_mode != "both":
            return [self]
        modes: tuple[Literal["trained", "fixed"], ...] = ("trained", "fixed")
        return [dataclasses.replace(self, words=mode, output=self.folder, name=mode) for mode in modes]

    def check(self) -> None:
        """Also raise UserError if views or words cannot be trained."""
        super().check()
        if not 2 <= len(self.view_list) <= MAX_VIEWS:
            views = f"--views {self.views[:80]}: {len(self.view_list)} of them"
            raise UserError(f"{views}; needs two to {MAX_VIEWS}, e.g. dep,const")
        if self.encoder.dim % 2 and "seq" in self.view_list:
            raise UserError(
                f"--encoder.dim {self.encoder.dim}: must be even for seq (half for each direction)"
            )
        # Checked here, because --words both and --table.expand open the file after hours of training.
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


ProgramConfig = ContinueConfig | NewViewsConfig
"""The configuration of one program, with the options of this program alone."""


@configuration
class ObjectiveOptions(MeaningConfig, ObjectiveConfig):
    """Options of the losses of both programs."""


@configuration
class TrainConfig(NewViewsOptions, ContinueOptions):
    """The options of the command line: those of both programs."""

    objective: ObjectiveOptions = ObjectiveOptions()
    """The contrastive loss."""

    def resolve(self) -> ProgramConfig:
        """Return the configuration of the program that ``--start`` chooses.

        Raises UserError if an option that only the other program has differs from its default.
        """
        program: type[ProgramConfig] = NewViewsConfig if self.start == NO_START else ContinueConfig
        program_options, defaults = options_of(program()), options_of(TrainConfig())
        for name, value in options_of(self).items():
            if name in program_options or value == defaults[name]:
                continue
            if self.start == NO_START:
                raise UserError(
                    f"--{name}: needs a model to go on from; leave --start at builtin, or name one"
                )
            raise UserError(
                f"--{name} {value}: an option of new views, which --start {self.start} has; give --start none"
            )
        objective_type = type(program().objective)
        objective = objective_type(**_field_values(self.objective, objective_type))
        return program(**{**_field_values(self, program), "objective": objective})


def _field_values(options: object, config_type: type) -> dict[str, Any]:
    """Return, by field name, the values of those options that are fields of a configuration class."""
    return {field.name: getattr(options, field.name) for field in dataclasses.fields(config_type)}


def preset_options(name: str) -> TrainConfig:
    """Return the options of ``laptop``, ``paper``, ``gpu`` or of a TOML file, as on the command line.

    Raises UserError if a preset or file does not exist, or if a value is wrong.
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
    return config_from_json(TrainConfig, {**values, "preset": name}, where=f"--preset {name}")


def preset(name: str, **changes: Any) -> ProgramConfig:
    """Return the configuration of a preset, with some options changed; the way to get one in Python.

    ``laptop`` goes on from a model, unless ``start="none"`` is given; ``paper`` and ``gpu`` train new views.
    A TOML file has the options that differ from ``laptop``'s. Raises UserError if a preset or file does not
    exist, or if a value is wrong.

        config = preset("laptop", start="none", views="dep,const", trees=Path("runs/trees/books"))
        multiview.train.main(config)
    """
    return dataclasses.replace(preset_options(name), **changes).resolve()


def recorded_config(values: object, *, where: Path | str) -> ProgramConfig:
    """Return the configuration that a model folder records. Raises UserError if a value is wrong."""
    has_start = isinstance(values, dict) and "start" in values
    program: type[ProgramConfig] = ContinueConfig if has_start else NewViewsConfig
    return config_from_json(program, values, where=where)


FREE_TO_CHANGE = ("preset", "trees", "name", "output", "dry-run", "device", "queries", "loop.max-minutes")
"""The options that a resumed run may change: those that do not change the weights, and the time limit."""


def options_of(config: SharedOptions) -> dict[str, Any]:
    """Return the value of every option, as JSON, by its name on the command line without the dashes."""
    options: dict[str, Any] = {"start": NO_START}  # replaced if the configuration has a start
    for name, value in config_to_json(config).items():
        if isinstance(value, dict):
            options |= {f"{name}.{option}": option_value for option, option_value in value.items()}
        else:
            options[name] = value
    return {name.replace("_", "-"): value for name, value in options.items()}


def decisive_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that decide the weights, as text; a resumed run must have the same."""
    return {name: str(value) for name, value in options.items() if name not in FREE_TO_CHANGE}
