"""The grammar of encoders' names, which is checked before anything heavy is imported.

What a name means is found out in :mod:`multiview.names.sources`, whose table lists the forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from runtime.errors import UserError

CORPUS = "?corpus=runs/trees/NAME, a tree cache of training text"
FORMS = {
    "": "MODEL, MODEL?views=VIEWS or MODEL?readout=features|meaning|raw, a MODEL of multiview.train",
    **dict.fromkeys(("cls", "mean", "max"), "cls:NAME, mean:NAME or max:NAME of a transformer"),
    "random": "random:VIEWS, random:VIEWS@DIM or random:VIEWS@DIM?vectors=FILE",
    "bag": "bag:WORDS: random@DIM, ngrams@DIM, a file of word vectors or a model of multiview.train",
    "sif": f"sif:WORDS{CORPUS}",
    "start": f"start:MODEL{CORPUS}: the one that this MODEL of multiview.train was trained on",
}
OPTIONS = {
    "": (None, "views", "readout"),
    "random": (None, "vectors"),
    "sif": ("corpus",),
    "start": ("corpus",),
}
PATTERN = re.compile(
    rf"(?:(?P<prefix>{'|'.join(filter(None, FORMS))}):)?(?P<base>[^?]+?)"
    r"(?:@(?P<dim>[1-9]\d{0,5}))?(?:\?(?P<option>views|vectors|corpus|readout)=(?P<value>.+))?"
)
STRUCTURE = re.compile(r"(?P<base>.+)\?structure=(?P<share>\d*\.?\d+)")
SCALE = re.compile(r"(?P<base>.+)\?scale=(?P<scale>[^?]+)")
RAW = "none"
"""As a scale: numbers as they are."""
PATHS = (".npz", ".txt", ".vec", ".gz", ".bin")
"""Suffixes of files; no name that sentence-transformers knows ends so."""


class Form(NamedTuple):
    """The parts of a name that is no path."""

    prefix: str
    base: str
    """Between prefix and ``@`` or ``?``: a model, views, or words."""
    dim: int | None
    """The number after ``@``."""
    option: str
    """``views``, ``vectors``, ``corpus``, ``readout`` or empty."""
    value: str
    """Of the option."""

    @property
    def drawn(self) -> bool:
        """Whether its numbers are drawn at random, so that ``base`` is no other encoder's name."""
        words = self.prefix in ("bag", "sif") and self.base in ("random", "ngrams")
        return self.prefix == "random" or words

    @property
    def file(self) -> Path | None:
        """The file that the option names."""
        named = {"corpus": Path(self.value, "manifest.json"), "vectors": Path(self.value)}
        return named.get(self.option)


def form_of(spec: str) -> Form:
    """The parts of a name without ``?structure=`` and ``?scale=``.

    Raises:
        UserError: it has none of the forms, or a file that it names is not there.
    """
    found, head = PATTERN.fullmatch(spec), spec.partition(":")[0]
    prefix = head if ":" in spec and head in FORMS else ""
    if not found or (found["prefix"] or "") != prefix or found["option"] not in OPTIONS.get(prefix, (None,)):
        raise wrong_form(spec, prefix)
    dim = int(found["dim"]) if found["dim"] else None
    form = Form(prefix, found["base"], dim, found["option"] or "", found["value"] or "")
    if form.file is not None and not form.file.is_file():
        raise UserError(f"model {spec!r}: {form.file}: no such file")
    if not form.prefix and not form.option and looks_like_path(spec):
        raise UserError(f"model {spec!r}: no such file or folder")
    return form


def scale_file(spec: str, scale: str) -> Path | None:
    """The manifest of the tree cache that a scale names; None for raw numbers.

    Raises:
        UserError: no cache is there.
    """
    path = Path(scale, "manifest.json")
    if scale != RAW and not path.is_file():
        raise UserError(f"model {spec!r}: {path}: no such file; a scale is a tree cache, or {RAW}")
    return None if scale == RAW else path


def wrong_form(spec: str, prefix: str) -> UserError:
    """The error for a name that its prefix does not take."""
    return UserError(f"model {spec!r}: expected {FORMS[prefix]}")


def looks_like_path(spec: str) -> bool:
    """Whether a name was meant as a path, so that no library is asked for it."""
    return Path(spec).suffix in PATHS or spec.startswith((".", "/", "runs/"))


def split_parts(spec: str) -> list[str]:
    """Split ``A+B`` into its parts; an existing path is one part whatever its name."""
    parts = [spec] if Path(spec).exists() else spec.split("+")
    if not all(parts):
        raise UserError(f"model {spec!r}: an empty part; write A+B")
    return parts


def check_names(specs: Iterable[str]) -> None:
    """Refuse, within a blink, what cannot name an encoder by its form and the files it names.

    Raises:
        UserError: the first such name.
    """
    for spec in specs:
        for part in split_parts(spec):
            _check_part(part)


def _check_part(spec: str) -> None:
    if Path(spec).exists():
        return
    if structured := STRUCTURE.fullmatch(spec):
        return _check_part(structured["base"])
    if scaled := SCALE.fullmatch(spec):
        scale_file(spec, scaled["scale"])
        return _check_part(scaled["base"])
    form = form_of(spec)
    if form.base != spec and not form.drawn:
        _check_part(form.base)
