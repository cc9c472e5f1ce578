"""The preset ``paper`` of ``parsing.run``: corpus and parsers of Simoulin & Crabbé 2021 (3.1, 2.2, A.1).

The parsers are not ours to ship: the preset wants their checkpoints and says where they are published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from corpora.support.errors import UserError
from corpora.support.presets import Need, refuse_missing
from corpora.umbc import SOURCE, find_folder

CORPUS = "umbc"
LIMIT = "40M"
"""Sentences, section 3.1."""
TOKENIZE: Literal["space"] = "space"
"""Section 3.1 has the tokenised corpus: in our reading the tagged files, their words taken as they are."""
PARSERS = {
    "dep": Need(
        "--dep-model FOLDER",
        "a biaffine parser with BERT features instead of tags (section A.1)",
        "https://github.com/yzhangcs/parser publishes biaffine-dep-en, with characters in place of BERT's "
        "features: python -m parsing.convert dep biaffine-dep-en FOLDER --trust-pickle",
    ),
    "const": Need(
        "--const-model NAME",
        "the parser of Kitaev & Klein 2018 (section 2.2)",
        "https://github.com/nikitakit/self-attentive-parser publishes benepar_en3; "
        "python -c \"import benepar; benepar.download('benepar_en3')\" fetches it",
    ),
}


def refuse_incomplete(corpus: str, data: Path, parsers: Mapping[str, str]) -> None:
    """Refuse a run of the preset that lacks the corpus or a parser.

    Args:
        corpus: as it was named.
        data: where ``umbc`` is looked for.
        parsers: ``--dep-model`` as ``dep`` and ``--const-model`` as ``const``, those that are wanted.

    Raises:
        UserError: all that is missing, with where it is published.
    """
    missing = []
    if corpus == CORPUS:
        try:
            find_folder(data)
        except UserError:
            missing.append(Need("--data FOLDER", f"UMBC WebBase, which is not in {data}", SOURCE))
    missing += [PARSERS[view] for view, spec in parsers.items() if not _is_here(view, spec)]
    refuse_missing("paper", missing)


def _is_here(view: str, spec: str) -> bool:
    if spec == "builtin":
        return False
    if view == "const" and not Path(spec).exists():
        from parsing.libraries.benepar import is_downloaded

        return is_downloaded(spec)
    return Path(spec).exists()


def deviations(
    *, corpus: str, limit: str | None, tokenize: str | None, precision: str, max_tokens: int
) -> Iterator[str]:
    """What a run changes of the paper's data, one line each.

    Args:
        corpus: option of the command, as the following are.
        limit: option.
        tokenize: option.
        precision: option.
        max_tokens: option.
    """
    if corpus != CORPUS:
        yield f"corpus {corpus}; the paper: {CORPUS} (section 3.1)"
    if limit != LIMIT:
        yield f"limit {limit}; the paper: {LIMIT} (section 3.1)"
    if tokenize != TOKENIZE:
        yield f"tokenize {tokenize}; our reading of the paper: {TOKENIZE} (section 3.1)"
    if precision != "fp32":
        yield f"precision {precision}; the paper has nothing of the kind"
    yield f"max-tokens {max_tokens}: longer sentences are not parsed; the paper names no limit"
