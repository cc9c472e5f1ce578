"""Step 1 of 4 from a name to vectors: the name is parsed and checked before anything heavy is imported.

A name is ``PREFIX:BASE?option=value?option=value``, of which BASE alone is needed; ``A+B`` puts encoders side
by side. :data:`PREFIXES` is the table of prefixes, each with the function that makes its encoders;
docs/senteval.md explains all names.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parsing.names import absolute_name
from runtime.errors import UserError
from runtime.folders import current_folder


@dataclass(frozen=True)
class Prefix:
    """The names with one prefix, and what makes their encoders."""

    words: str
    """The form of these names, as errors and help show it."""
    constructor: str
    """The function that returns the :class:`multiview.names.recipe.EncoderRecipe` of a name and a seed, as
    ``module:function``; it is imported when such a name is opened."""
    options: tuple[str, ...] = ()
    """Options besides those of every name; a ``corpus`` is needed."""
    own_bases: str = ""
    """Pattern of the bases that are no file, folder or other encoder, but views or random words."""


CONSTRUCTORS = "multiview.names.recipe"
CORPUS = "?corpus=runs/trees/NAME, a tree cache of training text"
POOLED = Prefix("cls:NAME, mean:NAME or max:NAME of a transformer", f"{CONSTRUCTORS}:pooled")
RANDOM_WORDS = "random|ngrams"
PREFIXES = {
    "": Prefix(
        "MODEL, MODEL?views=VIEWS, MODEL?readout=features|meaning|raw or MODEL?expand=FILE, a MODEL of "
        "multiview.train",
        f"{CONSTRUCTORS}:without_prefix",
        ("views", "readout", "expand"),
    ),
    "cls": POOLED,
    "mean": POOLED,
    "max": POOLED,
    "random": Prefix(
        "random:VIEWS, random:VIEWS?dim=N or random:VIEWS?vectors=FILE",
        f"{CONSTRUCTORS}:untrained",
        ("dim", "vectors"),
        "(?s).+",
    ),
    "bag": Prefix(
        "bag:WORDS: random?dim=N, ngrams?dim=N, a file of word vectors or a model of multiview.train",
        f"{CONSTRUCTORS}:bag",
        ("dim",),
        RANDOM_WORDS,
    ),
    "sif": Prefix(f"sif:WORDS{CORPUS}", f"{CONSTRUCTORS}:bag", ("dim", "corpus"), RANDOM_WORDS),
    "start": Prefix(
        f"start:MODEL{CORPUS}: the one that this MODEL of multiview.train was trained on",
        f"{CONSTRUCTORS}:before_training",
        ("corpus",),
    ),
}
"""The prefixes of names; ``""`` is that of names without one."""
HELP = (
    "Folders or names of models, .npz, or files of word vectors: "
    + "; ".join(dict.fromkeys(prefix.words for prefix in PREFIXES.values()))
    + ". A+B puts two side by side. ANY?scale=CACHE gives classifiers each number at one scale over that "
    "text, as a trained model's are; ?scale=none gives raw numbers. ANY?structure=0.1 adds structure. VIEWS "
    "are such as dep,const; random: takes lstm as well."
)
"""All names as ``--help`` lists them."""
OPTIONS_OF_ALL = ("scale", "structure")
"""Options of every name."""
VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "dim": ("[1-9][0-9]{0,5}", int),
    "views": (".+", lambda names: tuple(names.split(","))),
    "readout": ("features|meaning|raw", str),
    "structure": (r"[0-9]*\.?[0-9]+", float),
    **dict.fromkeys(("expand", "vectors", "corpus"), (".+", Path)),
    "scale": (".+", str),
}
"""Patterns of the values of options, and what makes of a text the value in :class:`Name`."""
OPTION = re.compile(r"(.+)\?([a-z]+)=([^?]+)")
RAW = "none"
"""The scale that leaves numbers as they are."""
MANIFEST = "manifest.json"
"""The file that a tree cache has."""
PATH = re.compile(r"(\.|/|runs/).*|.*\.(npz|txt|vec|gz|bin)")
"""Names that can only be paths, so that no library looks them up."""


@dataclass(frozen=True, kw_only=True)
class Name:
    """The parts of a name."""

    spec: str = ""
    """The whole name, as the user gave it."""
    prefix: str = ""
    base: str
    """The part between prefix and options: a model, views, or words."""
    dim: int | None = None
    """Size of random vectors; None leaves it to the encoder."""
    views: Sequence[str] | None = None
    """The views that are read; None is all."""
    readout: str | None = None
    """Which of a model's vectors to take; None leaves it to the task."""
    scale: str = ""
    """The tree cache over which features have one scale, ``none``, or nothing."""
    structure: float | None = None
    """λ, where the name has it."""
    expand: Path | None = None
    """Word vectors whose words the model gets as well."""
    vectors: Path | None = None
    """Word vectors of random encoders."""
    corpus: Path | None = None
    """A tree cache of training text."""
    inner: "Name | None" = None
    """The name of the encoder behind the prefix, where ``base`` is one."""

    @property
    def label(self) -> str:
        """A short form for tables: of a path its last part, and no corpus."""
        base = Path(self.base).absolute().name if os.path.exists(self.base) else self.base
        options = {
            "dim": self.dim,
            "vectors": self.vectors and self.vectors.stem,
            "views": ",".join(self.views or ()),
            "expand": self.expand and self.expand.stem,
            "readout": self.readout,
            "scale": Path(self.scale).name,
            "structure": None if self.structure is None else f"{self.structure:g}",
        }
        prefix = f"{self.prefix}:" if self.prefix else ""
        return prefix + base + "".join(f"?{key}={value}" for key, value in options.items() if value)

    @property
    def has_own_base(self) -> bool:
        """Whether ``base`` is no file, folder or other encoder, but views or random words."""
        return re.fullmatch(PREFIXES[self.prefix].own_bases, self.base) is not None

    @property
    def scale_trees(self) -> Path | None:
        """The tree cache over which features have one scale, where the name has one."""
        return Path(self.scale) if self.scale not in ("", RAW) else None

    @property
    def option_file(self) -> Path | None:
        """The file in an option of its prefix: word vectors, or the manifest of a tree cache."""
        return self.vectors or self.expand or (self.corpus and self.corpus / MANIFEST)


def wrong_form(spec: str, prefix: str) -> UserError:
    """Return the error for a name that its prefix does not take."""
    return UserError(f"model {spec!r}: expected {PREFIXES[prefix].words}")


def split_parts(spec: str) -> list[str]:
    """Split ``A+B`` into its parts; an existing path is one part whatever its name."""
    parts = [spec] if os.path.exists(spec) else spec.split("+")
    if not all(parts):
        raise UserError(f"model {spec!r}: an empty part; write A+B")
    return parts


def parse_names(spec: str) -> list[Name]:
    """Take the name of an encoder, or of several side by side (``A+B``), apart; nothing is loaded.

    A name of no form, and one whose files are not there, is a UserError.
    """
    return [parse_name(part) for part in split_parts(spec)]


def parse_name(spec: str) -> Name:
    """Take the name of one encoder apart, as :func:`parse_names` does."""
    text = spec
    options: dict[str, str] = {}
    has_wrong_value = False
    while (match := OPTION.fullmatch(text)) and not os.path.exists(text):
        text, key, value = match.groups()
        has_wrong_value |= key in options or key not in VALUES or not re.fullmatch(VALUES[key][0], value)
        options[key] = value
    prefix, colon, base = text.partition(":")
    if os.path.exists(text) or not (prefix and colon) or prefix not in PREFIXES:
        prefix, base = "", text
    known_options = {*PREFIXES[prefix].options, *OPTIONS_OF_ALL}
    lacks_corpus = "corpus" in known_options - options.keys()
    has_wrong_base = not base or ("?" in base and not os.path.exists(base))
    if has_wrong_value or has_wrong_base or lacks_corpus or not options.keys() <= known_options:
        raise wrong_form(spec, prefix)
    values: dict[str, Any] = {key: VALUES[key][1](value) for key, value in options.items()}
    name = Name(spec=spec, prefix=prefix, base=base, **values)
    if name.dim and not name.has_own_base:
        raise wrong_form(spec, prefix)
    if name.scale and name.readout == "meaning":
        raise UserError(f"model {spec!r}: a meaning has length 1 and no scale; leave out one of the two")
    _check_files(name)
    # Files are read later, perhaps in another working folder.
    files: dict[str, Any] = {
        key: value.absolute() for key, value in values.items() if isinstance(value, Path)
    }
    if name.scale_trees:
        files["scale"] = absolute_name(name.scale)
    if name.has_own_base:
        return replace(name, **files)
    return replace(name, base=absolute_name(base), inner=parse_name(base) if prefix else None, **files)


def _check_files(name: Name) -> None:
    """Refuse files and folders that are not there, and folders that hold no model, ours or another's."""
    scale_file = name.scale_trees and name.scale_trees / MANIFEST
    for file, advice in ((name.option_file, ""), (scale_file, f"; a scale is a tree cache, or {RAW}")):
        if file is not None and not os.path.isfile(file):
            raise UserError(f"model {name.spec!r}: {file}: no such file{advice}")
    if name.prefix:
        return
    if os.path.isdir(name.base):
        folder = current_folder(Path(name.base))
        if not any((folder / file).exists() for file in ("config.json", "modules.json")):
            raise UserError(f"{name.base}: no model here (neither config.json nor modules.json)")
    elif PATH.fullmatch(name.base) and not os.path.exists(name.base):
        raise UserError(f"model {name.base!r}: no such file or folder")
