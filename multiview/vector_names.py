"""What ``--vectors`` may name. Imports nothing heavy: options are checked by it."""

from __future__ import annotations

from pathlib import Path

DISTIL, TAUGHT = "distil:", "taught:"
"""Before the name of a sentence encoder: words as it encodes them, and these fitted to its sentences."""
TRAIN = "train"
"""In place of a file: skip-gram vectors of the corpus itself."""


def has_input(spec: str) -> bool:
    """Whether what is named is here; encoders are looked for when they are loaded.

    Args:
        spec: a file, a model2vec folder, ``distil:MODEL``, ``taught:MODEL`` or ``train``.
    """
    if spec == TRAIN or spec.startswith((DISTIL, TAUGHT)):
        return True
    return Path(spec).is_file() or Path(spec, "model.safetensors").is_file()
