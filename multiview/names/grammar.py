"""The grammar of encoders' names, which is checked before anything heavy is imported.

A name is ``PREFIX:BASE@DIM?option=value?option=value``, of which BASE alone is needed; ``A+B`` puts encoders
side by side. What a name means is found out in :mod:`multiview.names.sources`, whose table lists the forms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import UserError
from runtime.folders import current


@dataclass(frozen=True)
class Form:
    """Says what may follow a prefix."""

    expected: str
    """The form in words, for errors."""
    options: tuple[str, ...] = ()
    """Options of this prefix, besides those of every name."""
    needs_option: bool = False


CORPUS = "?corpus=runs/trees/NAME, a tree cache of training text"
POOLED = Form("cls:NAME, mean:NAME or max:NAME of a transformer")
FORMS = {
    "": Form(
        "MODEL, MODEL?views=VIEWS or MODEL?readout=features|meaning|raw, a MODEL of multiview.train",
        ("views", "readout"),
    ),
    "cls": POOLED,
    "mean": POOLED,
    "max": POOLED,
    "random": Form("random:VIEWS, random:VIEWS@DIM or random:VIEWS@DIM?vectors=FILE", ("vectors",)),
    "bag": Form("bag:WORDS: random@DIM, ngrams@DIM, a file of word vectors or a model of multiview.train"),
    "sif": Form(f"sif:WORDS{CORPUS}", ("corpus",), needs_option=True),
    "start": Form(
        f"start:MODEL{CORPUS}: the one that this MODEL of multiview.train was trained on",
        ("corpus",),
        needs_option=True,
    ),
}
SHARED_OPTIONS = {"scale": re.compile(".+"), "structure": re.compile(r"[0-9]*\.?[0-9]+")}
"""Options of every name, and what their values look like."""
OPTION = re.compile(r"(?P<base>.+)\?(?P<key>views|readout|vectors|corpus|scale|structure)=(?P<value>[^?]+)")
DIM = re.compile(r"(?P<base>.+)@(?P<dim>[1-9][0-9]{0,5})")
READOUTS = ("meaning", "features", "raw")
"""Values of ``?readout=``."""
RAW = "none"
"""As a scale: numbers as they are."""
PATHS = (".npz", ".txt", ".vec", ".gz", ".bin")
"""Suffixes of files; no name that sentence-transformers knows ends so."""


@dataclass(frozen=True, kw_only=True)
class EncoderName:
    """Holds the parts of a name."""

    spec: str
    """The whole name, as the user gave it."""
    prefix: str
    base: str
    """Between prefix and ``@`` or ``?``: a model, views, or words."""
    dim: int | None
    """The number after ``@``."""
    options: Mapping[str, str]

    @property
    def is_drawn(self) -> bool:
        """Tells whether its numbers are drawn at random, so that ``base`` names no other encoder."""
        words = self.prefix in ("bag", "sif") and self.base in ("random", "ngrams")
        return self.prefix == "random" or words

    @property
    def file(self) -> Path | None:
        """The file that its own option names: word vectors, or the manifest of a tree cache."""
        if "corpus" in self.options:
            return Path(self.options["corpus"], "manifest.json")
        return Path(self.options["vectors"]) if "vectors" in self.options else None

    @property
    def scale_file(self) -> Path | None:
        """The manifest of the tree cache whose scale features have; None where no cache is named."""
        scale = self.options.get("scale", RAW)
        return None if scale == RAW else Path(scale, "manifest.json")

    def wrong_form(self) -> UserError:
        """Return the error for a name that its prefix does not take."""
        return UserError(f"model {self.spec!r}: expected {FORMS[self.prefix].expected}")


def parse_name(spec: str) -> EncoderName:
    """Take the name of one encoder apart and look for the files in it, without loading anything.

    Raises:
        UserError: it has none of the forms, or a file that it names is not there.
    """
    base, options, repeated = spec, dict[str, str](), False
    while (option := OPTION.fullmatch(base)) and not Path(base).exists():
        repeated |= option["key"] in options
        base, options[option["key"]] = option["base"], option["value"]
    is_path = Path(base).exists()
    prefix, colon, rest = base.partition(":")
    if is_path or not (prefix and colon) or prefix not in FORMS:
        prefix, rest = "", base
    sized = DIM.fullmatch(rest) if prefix and not Path(rest).exists() else None
    name = EncoderName(
        spec=spec,
        prefix=prefix,
        base=sized["base"] if sized else rest,
        dim=int(sized["dim"]) if sized else None,
        options=options,
    )
    _check_options(name, repeated)
    if not (prefix or is_path) and looks_like_path(base):
        raise UserError(f"model {base!r}: no such file or folder")
    return name


def _check_options(name: EncoderName, repeated: bool) -> None:
    """Refuse a name of no form, and files that are not there; ``repeated``: an option is given twice."""
    form, options = FORMS[name.prefix], name.options
    own = options.keys() - SHARED_OPTIONS.keys()
    has_base = bool(name.base) and ("?" not in name.base or Path(name.base).exists())
    is_wrong = (
        repeated
        or not has_base
        or (name.dim is not None and not name.is_drawn)
        or not own <= set(form.options)
        or (form.needs_option and not own)
        or options.get("readout", "raw") not in READOUTS
        or any(not shape.fullmatch(options.get(key, "0")) for key, shape in SHARED_OPTIONS.items())
    )
    if is_wrong:
        raise name.wrong_form()
    if name.file is not None and not name.file.is_file():
        raise UserError(f"model {name.spec!r}: {name.file}: no such file")
    if name.scale_file is not None and not name.scale_file.is_file():
        advice = f"a scale is a tree cache, or {RAW}"
        raise UserError(f"model {name.spec!r}: {name.scale_file}: no such file; {advice}")


def looks_like_path(name: str) -> bool:
    """Tell whether a name was meant as a path, so that no library is asked for it."""
    return Path(name).suffix in PATHS or name.startswith((".", "/", "runs/"))


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
            name = parse_name(part)
            if name.prefix and not name.is_drawn:
                parse_name(name.base)
            if not name.is_drawn:
                check_folder(Path(name.base))


def check_folder(path: Path) -> None:
    """Refuse a folder that holds no model, ours or another library's.

    Raises:
        UserError: neither config.json nor modules.json is there.
    """
    if path.is_dir() and not any((current(path) / name).exists() for name in ("config.json", "modules.json")):
        raise UserError(f"{path}: no model here (neither config.json nor modules.json)")
