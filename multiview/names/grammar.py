"""The grammar of encoders' names, which is checked before anything heavy is imported.

A name is ``PREFIX:BASE@DIM?option=value?option=value``, of which BASE alone is needed; ``A+B`` puts encoders
side by side. What a name means is found out in :mod:`multiview.names.sources`; docs/senteval.md lists all.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import UserError
from runtime.folders import current_folder


@dataclass(frozen=True)
class Form:
    """Says what may follow a prefix."""

    expected: str
    """The form in words, for errors."""
    options: tuple[str, ...] = ()
    """Options of this prefix, besides those of every name; a corpus is needed."""


CORPUS = "?corpus=runs/trees/NAME, a tree cache of training text"
POOLED = Form("cls:NAME, mean:NAME or max:NAME of a transformer")
FORMS = {
    "": Form(
        "MODEL, MODEL?views=VIEWS, MODEL?readout=features|meaning|raw or MODEL?expand=FILE, a MODEL of "
        "multiview.train",
        ("views", "readout", "expand"),
    ),
    "cls": POOLED,
    "mean": POOLED,
    "max": POOLED,
    "random": Form("random:VIEWS, random:VIEWS@DIM or random:VIEWS@DIM?vectors=FILE", ("vectors",)),
    "bag": Form("bag:WORDS: random@DIM, ngrams@DIM, a file of word vectors or a model of multiview.train"),
    "sif": Form(f"sif:WORDS{CORPUS}", ("corpus",)),
    "start": Form(
        f"start:MODEL{CORPUS}: the one that this MODEL of multiview.train was trained on", ("corpus",)
    ),
}
OPTION = re.compile(r"(?P<base>.+)\?(?P<key>[a-z]+)=(?P<value>[^?]+)")
SHARE = re.compile(r"[0-9]*\.?[0-9]+")
DIM = re.compile(r"(?P<base>.+)@(?P<dim>[1-9][0-9]{0,5})")
RAW = "none"
"""As a scale: numbers as they are."""
MANIFEST = "manifest.json"
"""Of a tree cache."""
PATH = re.compile(r"(\.|/|runs/).*|.*\.(npz|txt|vec|gz|bin)")
"""What is meant as a path, so that no library is asked for it."""


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
    views: Sequence[str] | None
    """The views that are read; None is all."""
    readout: str | None
    """Which of a model's vectors is asked for; None leaves it to the task."""
    scale: str
    """The tree cache over which features have one scale, ``none``, or nothing."""
    structure: float | None
    """λ, where it is given."""
    expand: Path | None = None
    """Word vectors whose words a model gets too."""
    vectors: Path | None = None
    """Word vectors of random encoders."""
    corpus: Path | None = None
    """A tree cache of training text."""

    @property
    def name(self) -> str:
        """Gives a short name for tables: of a path its last part."""
        prefix = f"{self.prefix}:" if self.prefix else ""
        base = Path(self.base).absolute().name if os.path.exists(self.base) else self.base
        size = f"@{self.dim}" if self.dim else ""
        views = f"?views={','.join(self.views)}" if self.views else ""
        words = f" over {self.vectors.stem}" if self.vectors else ""
        words += f"?expand={self.expand.stem}" if self.expand else ""
        readout = f"?readout={self.readout}" if self.readout else ""
        scale = f"?scale={Path(self.scale).name}" if self.scale else ""
        share = f"?structure={self.structure:g}" if self.structure is not None else ""
        return f"{prefix}{base}{size}{views}{words}{readout}{scale}{share}"

    @property
    def is_drawn(self) -> bool:
        """Tells whether its numbers are drawn at random, so that ``base`` names no other encoder."""
        words = self.prefix in ("bag", "sif") and self.base in ("random", "ngrams")
        return self.prefix == "random" or words

    @property
    def text(self) -> Path | None:
        """The tree cache over which features have one scale, where a name gives it."""
        return Path(self.scale) if self.scale not in ("", RAW) else None

    @property
    def file(self) -> Path | None:
        """The file that its own option names: word vectors, or the manifest of a tree cache."""
        return self.vectors or self.expand or (self.corpus and self.corpus / MANIFEST)

    def wrong_form(self) -> UserError:
        """Return the error for a name that its prefix does not take."""
        return UserError(f"model {self.spec!r}: expected {FORMS[self.prefix].expected}")


def parse_name(spec: str) -> EncoderName:
    """Take a name apart and look for its files, without loading; a name of no form is a UserError."""
    base, options, is_repeated = spec, dict[str, str](), False
    while (option := OPTION.fullmatch(base)) and not os.path.exists(base):
        is_repeated |= option["key"] in options
        base, options[option["key"]] = option["base"], option["value"]
    is_path = os.path.exists(base)
    prefix, colon, rest = base.partition(":")
    if is_path or not (prefix and colon) or prefix not in FORMS:
        prefix, rest = "", base
    sized = DIM.fullmatch(rest) if prefix and not os.path.exists(rest) else None
    base = sized["base"] if sized else rest
    is_share = SHARE.fullmatch(options.get("structure", "0")) is not None
    name = EncoderName(
        spec=spec,
        prefix=prefix,
        base=base,
        dim=int(sized["dim"]) if sized else None,
        views=options["views"].split(",") if "views" in options else None,
        readout=options.get("readout"),
        scale=options.get("scale", ""),
        structure=float(options["structure"]) if "structure" in options and is_share else None,
        **{key: Path(options[key]) for key in ("expand", "vectors", "corpus") if key in options},
    )
    form, own = FORMS[prefix], options.keys() - {"scale", "structure"}
    if (
        (is_repeated or not is_share or name.readout not in (None, "meaning", "features", "raw"))
        or (not base or ("?" in base and not os.path.exists(base)))
        or (sized and not name.is_drawn)
        or not own <= set(form.options)
        or (not own and "corpus" in form.options)
    ):
        raise name.wrong_form()
    _check_files(name)
    return name


def _check_files(name: EncoderName) -> None:
    """Refuse files and folders that are not there, and folders that hold no model, ours or another's."""
    scale, advice = name.text and name.text / MANIFEST, f"; a scale is a tree cache, or {RAW}"
    for file, remedy in ((name.file, ""), (scale, advice)):
        if file is not None and not os.path.isfile(file):
            raise UserError(f"model {name.spec!r}: {file}: no such file{remedy}")
    if name.prefix and not name.is_drawn:
        parse_name(name.base)
    elif not name.prefix and os.path.isdir(name.base):
        folder = current_folder(Path(name.base))
        if not any((folder / file).exists() for file in ("config.json", "modules.json")):
            raise UserError(f"{name.base}: no model here (neither config.json nor modules.json)")
    elif not name.prefix and PATH.fullmatch(name.base) and not os.path.exists(name.base):
        raise UserError(f"model {name.base!r}: no such file or folder")


def split_parts(spec: str) -> list[str]:
    """Split ``A+B`` into its parts; an existing path is one part whatever its name."""
    parts = [spec] if os.path.exists(spec) else spec.split("+")
    if not all(parts):
        raise UserError(f"model {spec!r}: an empty part; write A+B")
    return parts


def check_names(specs: Iterable[str]) -> None:
    """Refuse, within a blink, the first name that cannot mean an encoder by its form and its files."""
    for spec in specs:
        for part in split_parts(spec):
            parse_name(part)
