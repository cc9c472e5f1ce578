"""Parses the names of encoders, which are checked before anything heavy is imported.

A name is ``PREFIX:BASE@DIM?option=value?option=value``, of which BASE alone is needed; ``A+B`` puts encoders
side by side. :mod:`multiview.names.sources` finds out what a name means; docs/senteval.md lists all.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import UserError
from runtime.folders import current_folder

CORPUS = "?corpus=runs/trees/NAME, a tree cache of training text"
POOLED = "cls:NAME, mean:NAME or max:NAME of a transformer"
FORMS = {
    "": "MODEL, MODEL?views=VIEWS, MODEL?readout=features|meaning|raw or MODEL?expand=FILE, a MODEL of "
    "multiview.train",
    "cls": POOLED,
    "mean": POOLED,
    "max": POOLED,
    "random": "random:VIEWS, random:VIEWS@DIM or random:VIEWS@DIM?vectors=FILE",
    "bag": "bag:WORDS: random@DIM, ngrams@DIM, a file of word vectors or a model of multiview.train",
    "sif": f"sif:WORDS{CORPUS}",
    "start": f"start:MODEL{CORPUS}: the one that this MODEL of multiview.train was trained on",
}
"""What may follow each prefix, in words, for errors."""
OPTIONS = {"": {"views", "readout", "expand"}, "random": {"vectors"}, "sif": {"corpus"}, "start": {"corpus"}}
"""The options of a prefix, besides those of every name; a corpus is needed."""
OPTION = re.compile(r"(?P<base>.+)\?(?P<key>[a-z]+)=(?P<value>[^?]+)")
SHARE = re.compile(r"[0-9]*\.?[0-9]+")
DIM = re.compile(r"(?P<base>.+)@(?P<dim>[1-9][0-9]{0,5})")
RAW = "none"
"""The scale that leaves numbers as they are."""
MANIFEST = "manifest.json"
"""The file that a tree cache has."""
PATH = re.compile(r"(\.|/|runs/).*|.*\.(npz|txt|vec|gz|bin)")
"""Names that can only be paths, so that no library looks them up."""


@dataclass(frozen=True, kw_only=True)
class EncoderName:
    """The parts of a name."""

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
    """Which of a model's vectors to take; None leaves it to the task."""
    scale: str
    """The tree cache over which features have one scale, ``none``, or nothing."""
    structure: float | None
    """λ, where the name has it."""
    expand: Path | None = None
    """Word vectors whose words the model gets as well."""
    vectors: Path | None = None
    """Word vectors of random encoders."""
    corpus: Path | None = None
    """A tree cache of training text."""

    @property
    def name(self) -> str:
        """A short name for tables: of a path its last part."""
        base = Path(self.base).absolute().name if os.path.exists(self.base) else self.base
        text = f"{self.prefix}:{base}" if self.prefix else base
        text += f"@{self.dim}" if self.dim else ""
        text += f" over {self.vectors.stem}" if self.vectors else ""
        options = {
            "views": ",".join(self.views or ()),
            "expand": self.expand.stem if self.expand else "",
            "readout": self.readout,
            "scale": Path(self.scale).name,
            "structure": None if self.structure is None else f"{self.structure:g}",
        }
        return text + "".join(f"?{key}={value}" for key, value in options.items() if value)

    @property
    def is_random(self) -> bool:
        """Whether its numbers are drawn at random, so that ``base`` names no other encoder."""
        has_random_words = self.prefix in ("bag", "sif") and self.base in ("random", "ngrams")
        return self.prefix == "random" or has_random_words

    @property
    def text(self) -> Path | None:
        """The tree cache over which features have one scale, where the name has one."""
        return Path(self.scale) if self.scale not in ("", RAW) else None

    @property
    def file(self) -> Path | None:
        """The file in an option of its prefix: word vectors, or the manifest of a tree cache."""
        return self.vectors or self.expand or (self.corpus and self.corpus / MANIFEST)

    def wrong_form(self) -> UserError:
        """Return the error for a name that its prefix does not take."""
        return UserError(f"model {self.spec!r}: expected {FORMS[self.prefix]}")


def parse_name(spec: str) -> EncoderName:
    """Take a name apart and look for its files, without loading; a name of no form is a UserError."""
    text = spec
    options: dict[str, str] = {}
    is_repeated = False
    while (option := OPTION.fullmatch(text)) and not os.path.exists(text):
        is_repeated |= option["key"] in options
        options[option["key"]] = option["value"]
        text = option["base"]
    prefix, colon, base = text.partition(":")
    if os.path.exists(text) or not (prefix and colon) or prefix not in FORMS:
        prefix, base = "", text
    dim = None
    if prefix and not os.path.exists(base) and (sized_name := DIM.fullmatch(base)):
        base, dim = sized_name["base"], int(sized_name["dim"])
    share = SHARE.fullmatch(options.get("structure", "0"))
    name = EncoderName(
        spec=spec,
        prefix=prefix,
        base=base,
        dim=dim,
        views=options["views"].split(",") if "views" in options else None,
        readout=options.get("readout"),
        scale=options.get("scale", ""),
        structure=float(share[0]) if "structure" in options and share else None,
        **{key: Path(options[key]) for key in ("expand", "vectors", "corpus") if key in options},
    )
    prefix_options = options.keys() - {"scale", "structure"}
    known_options = OPTIONS.get(prefix, set())
    if (
        (is_repeated or not share or name.readout not in (None, "meaning", "features", "raw"))
        or (not base or ("?" in base and not os.path.exists(base)))
        or (dim and not name.is_random)
        or not prefix_options <= known_options
        or (not prefix_options and "corpus" in known_options)
    ):
        raise name.wrong_form()
    _check_files(name)
    return name


def _check_files(name: EncoderName) -> None:
    """Refuse files and folders that are not there, and folders that hold no model, ours or another's."""
    scale_file = name.text and name.text / MANIFEST
    for file, advice in ((name.file, ""), (scale_file, f"; a scale is a tree cache, or {RAW}")):
        if file is not None and not os.path.isfile(file):
            raise UserError(f"model {name.spec!r}: {file}: no such file{advice}")
    if name.prefix:
        if not name.is_random:
            parse_name(name.base)
    elif os.path.isdir(name.base):
        folder = current_folder(Path(name.base))
        if not any((folder / file).exists() for file in ("config.json", "modules.json")):
            raise UserError(f"{name.base}: no model here (neither config.json nor modules.json)")
    elif PATH.fullmatch(name.base) and not os.path.exists(name.base):
        raise UserError(f"model {name.base!r}: no such file or folder")


def split_parts(spec: str) -> list[str]:
    """Split ``A+B`` into its parts; an existing path is one part whatever its name."""
    parts = [spec] if os.path.exists(spec) else spec.split("+")
    if not all(parts):
        raise UserError(f"model {spec!r}: an empty part; write A+B")
    return parts


def check_names(specs: Iterable[str]) -> None:
    """Refuse the first name that cannot mean an encoder by its form and its files; nothing is loaded."""
    for spec in specs:
        for part in split_parts(spec):
            parse_name(part)
