"""Choose the reader of a data set by its name."""

from __future__ import annotations

from pathlib import Path

from corpora.ranking.questions import PassageSet
from corpora.support.errors import UserError

FORMATS = ("wikiqa", "trecqa", "wikipassageqa", "insuranceqa", "quasar-t", "searchqa", "trec")
ALIASES = {"cranfield": "trec", "quasart": "quasar-t", "quasar": "quasar-t"}


def parse_spec(spec: str) -> tuple[str, Path]:
    """Format and folder of ``FORMAT=FOLDER``, or of a folder named after its format.

    Raises:
        UserError: unknown format.
    """
    format_name, _, rest = spec.partition("=")
    folder = Path(rest) if rest else Path(spec)
    name = (format_name if rest else folder.name).lower()
    name = ALIASES.get(name, name)
    if name not in FORMATS:
        raise UserError(f"data set {spec!r}: write FORMAT=FOLDER with a format of {', '.join(FORMATS)}")
    return name, folder


def read_set(spec: str, *, split_seed: int) -> PassageSet:
    """Read a data set.

    Args:
        spec: as for :func:`parse_spec`.
        split_seed: seed of the random split for sets without a published one.

    Raises:
        UserError: unknown format, missing or malformed files.
    """
    from corpora.ranking import answers, insurance, trec, trivia

    kind, folder = parse_spec(spec)
    name = folder.absolute().name  # "." has a name too
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    if kind in ("wikiqa", "trecqa"):
        return answers.read_answers(folder, name)
    if kind == "wikipassageqa":
        return answers.read_wikipassageqa(folder, name)
    if kind == "insuranceqa":
        return insurance.read_insuranceqa(folder, name)
    if kind == "quasar-t":
        return trivia.read_quasar(folder, name)
    if kind == "searchqa":
        return trivia.read_searchqa(folder, name, split_seed)
    return trec.read_trec(folder, name, split_seed)
