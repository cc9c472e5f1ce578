"""Step 1 of 3 from a name to vectors: the name is parsed and checked before anything heavy is imported.

A name is ``PREFIX:BASE?option=value?option=value``, of which BASE alone is needed. ``A+B`` names an encoder
whose vectors are those of A and B concatenated. :data:`PREFIXES` is the table of prefixes. Each row names
the function that step 2, :func:`multiview.names.constructors.encoder_of`, calls for such names.
docs/senteval.md explains all names to users.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from multiview.model_config import VectorKind
from parsing.names import MANIFEST, absolute_name
from runtime.errors import UserError
from runtime.folders import current_folder


@dataclass(frozen=True)
class Prefix:
    """A prefix: the form of its names, their options, and the function that returns their encoders."""

    form: str
    """The form of these names, as errors and ``--help`` show it."""
    constructor: str
    """The function that returns the :class:`multiview.names.encoder.LazyEncoder` of a name and a seed, as
    ``module:function``; it is imported when such a name is opened."""
    options: tuple[str, ...] = ()
    """Options beside :data:`OPTIONS_OF_ALL`. Names with the option ``corpus`` must have it."""
    own_bases: str = ""
    """A regular expression of the bases that are names of views or kinds of random words. Any other base is a
    file, a folder or the name of another encoder."""


CONSTRUCTORS = "multiview.names.constructors"
CORPUS = "?corpus=runs/trees/NAME, a tree cache of training text"
POOLED = Prefix("cls:NAME, mean:NAME or max:NAME of a transformer", f"{CONSTRUCTORS}:pooled")
RANDOM_WORDS = "random|ngrams"
PREFIXES = {
    "": Prefix(
        "MODEL, MODEL?views=VIEWS, MODEL?kind=raw|features|meaning or MODEL?expand=FILE, a MODEL of "
        "multiview.train",
        f"{CONSTRUCTORS}:without_prefix",
        ("views", "kind", "expand"),
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
"""The prefixes of names; the key ``""`` is for names without a prefix."""
HELP = (
    "Folders or names of models, .npz, or files of word vectors: "
    + "; ".join(dict.fromkeys(prefix.form for prefix in PREFIXES.values()))
    + ". A+B puts two side by side. ANY?scale=CACHE gives classifiers each number at one scale over that "
    "text, as a trained model's are; ?scale=none gives raw numbers. ANY?structure=0.1 adds structure. VIEWS "
    "are such as dep,const; random: takes lstm as well."
)
"""What ``--help`` says about names."""
OPTIONS_OF_ALL = ("scale", "structure")
"""Options that every name may have."""
VALUES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "dim": ("[1-9][0-9]{0,5}", int),
    "views": (".+", lambda names: tuple(names.split(","))),
    "kind": ("raw|features|meaning", str),
    "structure": (r"[0-9]*\.?[0-9]+", float),
    **dict.fromkeys(("expand", "vectors", "corpus"), (".+", Path)),
    "scale": (".+", str),
}
"""For each option, a regular expression of its values, and the function that converts the text to the value
in :class:`Name`."""
OPTION = re.compile(r"(.+)\?([a-z]+)=([^?]+)")
NO_SCALE = "none"
"""The value of ``?scale=`` by which features are raw numbers."""
PATH = re.compile(r"(\.|/|runs/).*|.*\.(npz|txt|vec|gz|bin)")
"""A regular expression of bases that can only be paths. They are not looked up as pretrained models."""


@dataclass(frozen=True, kw_only=True)
class Name:
    """A parsed name of one encoder."""

    full_name: str = ""
    """The whole name, as the user gave it."""
    prefix: str = ""
    base: str
    """The part between prefix and options: a model, views, or a source of word vectors."""
    dim: int | None = None
    """The size of random vectors; None is the encoder's default."""
    views: Sequence[str] | None = None
    """The views of a model whose vectors are taken; None is all."""
    kind: VectorKind | None = None
    """The kind of vectors; None leaves the choice to the task."""
    scale: str = ""
    """The tree cache by whose sentences features are standardised, ``none`` for raw numbers, or empty."""
    structure: float | None = None
    """λ, the share of structure; None leaves it to the model."""
    expand: Path | None = None
    """A file of word vectors whose words are added to the model's vocabulary."""
    vectors: Path | None = None
    """A file of word vectors that random encoders read."""
    corpus: Path | None = None
    """A tree cache of training text, by which SIF counts words, or from which a model's start is drawn."""
    inner: "Name | None" = None
    """The parsed ``base``, if that is the name of another encoder."""

    @property
    def label(self) -> str:
        """A short form for tables: paths are cut to their last part, and the corpus is left out."""
        base = Path(self.base).absolute().name if os.path.exists(self.base) else self.base
        options = {
            "dim": self.dim,
            "vectors": self.vectors and self.vectors.stem,
            "views": ",".join(self.views or ()),
            "expand": self.expand and self.expand.stem,
            "kind": self.kind,
            "scale": Path(self.scale).name,
            "structure": None if self.structure is None else f"{self.structure:g}",
        }
        prefix = f"{self.prefix}:" if self.prefix else ""
        return prefix + base + "".join(f"?{key}={value}" for key, value in options.items() if value)

    @property
    def has_own_base(self) -> bool:
        """Whether ``base`` names views or a kind of random words, and no file, folder or other encoder."""
        return re.fullmatch(PREFIXES[self.prefix].own_bases, self.base) is not None

    @property
    def scale_trees(self) -> Path | None:
        """The tree cache by whose sentences features are standardised, if the name gives one."""
        return Path(self.scale) if self.scale not in ("", NO_SCALE) else None

    @property
    def option_file(self) -> Path | None:
        """The file that an option of the prefix names: word vectors, or the manifest of a tree cache."""
        return self.vectors or self.expand or (self.corpus and self.corpus / MANIFEST)


def wrong_form(full_name: str, prefix: str) -> UserError:
    """Return the error for a name that has not the form of its prefix."""
    return UserError(f"model {full_name!r}: expected {PREFIXES[prefix].form}")


def split_parts(full_name: str) -> list[str]:
    """Split ``A+B`` into the names of its encoders; the path of an existing file is never split."""
    parts = [full_name] if os.path.exists(full_name) else full_name.split("+")
    if not all(parts):
        raise UserError(f"model {full_name!r}: an empty part; write A+B")
    return parts


def parse_names(full_name: str) -> list[Name]:
    """Parse the name of an encoder, or ``A+B`` of several; nothing is loaded.

    Raises UserError if a name has no known form, or if a file that it names does not exist.
    """
    return [parse_name(part) for part in split_parts(full_name)]


def parse_name(full_name: str) -> Name:
    """Parse the name of one encoder, as :func:`parse_names` does."""
    text = full_name
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
        raise wrong_form(full_name, prefix)
    values: dict[str, Any] = {key: VALUES[key][1](value) for key, value in options.items()}
    name = Name(full_name=full_name, prefix=prefix, base=base, **values)
    if name.dim and not name.has_own_base:
        raise wrong_form(full_name, prefix)
    if name.scale and name.kind == "meaning":
        raise UserError(f"model {full_name!r}: a meaning has length 1 and no scale; leave out one of the two")
    _check_files(name)
    # Paths become absolute, because files are read later, perhaps in another working folder.
    files: dict[str, Any] = {
        key: value.absolute() for key, value in values.items() if isinstance(value, Path)
    }
    if name.scale_trees:
        files["scale"] = absolute_name(name.scale)
    if name.has_own_base:
        return replace(name, **files)
    return replace(name, base=absolute_name(base), inner=parse_name(base) if prefix else None, **files)


def _check_files(name: Name) -> None:
    """Raise UserError if a file or folder does not exist, or if a folder holds no model of any library."""
    scale_file = name.scale_trees and name.scale_trees / MANIFEST
    for file, advice in ((name.option_file, ""), (scale_file, f"; a scale is a tree cache, or {NO_SCALE}")):
        if file is not None and not os.path.isfile(file):
            raise UserError(f"model {name.full_name!r}: {file}: no such file{advice}")
    if name.prefix:
        return
    if os.path.isdir(name.base):
        folder = current_folder(Path(name.base))
        if not any((folder / file).exists() for file in ("config.json", "modules.json")):
            raise UserError(f"{name.base}: no model here (neither config.json nor modules.json)")
    elif PATH.fullmatch(name.base) and not os.path.exists(name.base):
        raise UserError(f"model {name.base!r}: no such file or folder")
