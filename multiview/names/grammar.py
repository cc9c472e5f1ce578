"""Parses the names of encoders, which are checked before anything heavy is imported.

A name is ``PREFIX:BASE?option=value?option=value``, of which BASE alone is needed; ``A+B`` puts encoders side
by side. :data:`FORMS` is the table of prefixes, :data:`multiview.names.named.CONSTRUCTORS` makes the encoder
of a name with each of them; docs/senteval.md explains all names.
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
class Form:
    """The form of the names with one prefix: their base and their options."""

    words: str
    """The form in words, for errors and help."""
    options: tuple[str, ...] = ()
    """Options besides those of every name; a ``corpus`` is needed."""


CORPUS = "?corpus=runs/trees/NAME, a tree cache of training text"
FORMS = {
    "": Form(
        "MODEL, MODEL?views=VIEWS, MODEL?readout=features|meaning|raw or MODEL?expand=FILE, a MODEL of "
        "multiview.train",
        ("views", "readout", "expand"),
    ),
    **dict.fromkeys(("cls", "mean", "max"), Form("cls:NAME, mean:NAME or max:NAME of a transformer")),
    "random": Form("random:VIEWS, random:VIEWS?dim=N or random:VIEWS?vectors=FILE", ("dim", "vectors")),
    "bag": Form(
        "bag:WORDS: random?dim=N, ngrams?dim=N, a file of word vectors or a model of multiview.train",
        ("dim",),
    ),
    "sif": Form(f"sif:WORDS{CORPUS}", ("dim", "corpus")),
    "start": Form(
        f"start:MODEL{CORPUS}: the one that this MODEL of multiview.train was trained on", ("corpus",)
    ),
}
"""The forms of names by prefix."""
HELP = (
    "Folders or names of models, .npz, or files of word vectors: "
    + "; ".join(dict.fromkeys(form.words for form in FORMS.values()))
    + ". A+B puts two side by side. ANY?scale=CACHE gives classifiers each number at one scale over that "
    "text, as a trained model's are; ?scale=none gives raw numbers. ANY?structure=0.1 adds structure. VIEWS "
    "are such as dep,const; random: takes lstm as well."
)
"""The forms of names as ``--help`` lists them."""
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

    def staying(self) -> "Name":
        """Return the same name for any working folder: its files are read later, perhaps in another."""
        return replace(
            self,
            base=self.base if self.is_random else absolute_name(self.base),
            scale=absolute_name(self.scale) if self.scale_trees else self.scale,
            inner=self.inner and self.inner.staying(),
            expand=self.expand and self.expand.absolute(),
            vectors=self.vectors and self.vectors.absolute(),
            corpus=self.corpus and self.corpus.absolute(),
        )

    @property
    def is_random(self) -> bool:
        """Whether its numbers are drawn at random, so that ``base`` names no other encoder."""
        has_random_words = self.prefix in ("bag", "sif") and self.base in ("random", "ngrams")
        return self.prefix == "random" or has_random_words

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
    return UserError(f"model {spec!r}: expected {FORMS[prefix].words}")


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
    if os.path.exists(text) or not (prefix and colon) or prefix not in FORMS:
        prefix, base = "", text
    known_options = {*FORMS[prefix].options, *OPTIONS_OF_ALL}
    lacks_corpus = "corpus" in known_options - options.keys()
    has_wrong_base = not base or ("?" in base and not os.path.exists(base))
    if has_wrong_value or has_wrong_base or lacks_corpus or not options.keys() <= known_options:
        raise wrong_form(spec, prefix)
    values: dict[str, Any] = {key: VALUES[key][1](value) for key, value in options.items()}
    name = Name(spec=spec, prefix=prefix, base=base, **values)
    if name.dim and not name.is_random:
        raise wrong_form(spec, prefix)
    if name.scale and name.readout == "meaning":
        raise UserError(f"model {spec!r}: a meaning has length 1 and no scale; leave out one of the two")
    _check_files(name)
    return replace(name, inner=parse_name(base)) if prefix and not name.is_random else name


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
