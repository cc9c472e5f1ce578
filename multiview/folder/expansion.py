"""Models on disk with more words: their vocabulary expanded by a file of vectors."""

from __future__ import annotations

from pathlib import Path

from corpora.inputs import stem
from multiview.folder.files import load_members, model_records, model_sha256, save_model
from multiview.words.vectors import CACHE, DEFAULT_WORDS, WordVectors, converted, file_source
from runtime.errors import UserError
from runtime.files import locked, read_json, write_json
from runtime.folders import OURS


def has_trained_words(folder: Path) -> bool:
    """Whether a model, or one of several in a folder, has word vectors of its own."""
    return any(record.words.mode == "trained" for record in model_records(folder).values())


def expanded_folder(folder: Path, vectors: str, *, words: int = DEFAULT_WORDS, cache: Path = CACHE) -> Path:
    """Return the folder beside a model's of that model with more words, made now unless it is there.

    Its ``expanded.json`` says from which model and which vectors. Fixed vectors stay as they are.

    Raises:
        UserError: no trained words in the model, malformed vectors, too few words in common, or something
            else in the folder that the expanded model goes to.
    """
    source = file_source(vectors, words)
    target = folder.with_name(f"{folder.absolute().name}-expanded-{Path(stem(Path(vectors))).stem}")
    record = {"model": model_sha256(folder), "vectors": dict(source.record)}
    mark = target / "expanded.json"
    with locked(target, option="name of the model", wait=True):
        if mark.exists() and read_json(mark) == record:
            return target
        if not mark.exists() and {path.name for path in target.iterdir()} - OURS:
            raise UserError(
                f"{target}: is where the expanded model goes and holds something else; move it away"
            )
        write_json(mark, {})  # not finished, but ours
        expand_into(folder, target, converted(source, cache))
        write_json(mark, record)
    return target


def expand_into(folder: Path, target: Path, vectors: WordVectors) -> None:
    """Write a model into ``target`` with its vocabulary expanded; both may be the same folder.

    Raises:
        UserError: no trained words in the model, or too few words in common.
    """
    if not has_trained_words(folder):
        raise UserError(f"{folder}: has fixed word vectors only; there is no trained vocabulary to expand")
    members = load_members(folder)
    for member in members:
        member.network.words.expand(vectors)
    save_model(members, target, folder)
