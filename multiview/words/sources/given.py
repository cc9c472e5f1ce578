"""Word vectors that are finished: in a file, a model2vec folder or a spaCy pipeline.

No corpus is needed to make them, and this imports nothing that reads one.
"""

from __future__ import annotations

from pathlib import Path

from multiview.vector_names import SPACY
from multiview.words.sources.libraries import of_model2vec, of_spacy
from multiview.words.vectors import Source, of_file


def given_source(spec: str, limit: int) -> Source:
    """What a name of finished vectors means; they are not read yet.

    Args:
        spec: a file, a model2vec folder, or ``spacy:PIPELINE``.
        limit: words to read at most, from the top.

    Raises:
        UserError: what is named is missing.
    """
    if spec.startswith(SPACY):
        return of_spacy(spec.removeprefix(SPACY), limit)
    return of_model2vec(Path(spec), limit) if Path(spec).is_dir() else of_file(Path(spec), limit)
