"""A model with its vocabulary expanded, as a model folder of its own beside the one it came from.

Made once: ``expanded.json`` says from which model and which vectors.
"""

from __future__ import annotations

from pathlib import Path

from corpora.inputs import stem
from corpora.support.errors import UserError
from corpora.support.files import read_json, write_json
from multiview.folder.files import load_members, member_names, member_record, model_sha256, save_model
from multiview.words.vectors import CACHE, DEFAULT_WORDS, WordVectors, converted, given_source


def has_trained_words(folder: Path) -> bool:
    """Whether a model, or one of several in a folder, has word vectors of its own."""
    return any(member_record(folder / name).words.mode == "trained" for name in member_names(folder))


def expanded_folder(folder: Path, vectors: str, *, words: int = DEFAULT_WORDS, cache: Path = CACHE) -> Path:
    """The folder of the expanded model, made now unless it is there.

    Args:
        folder: of a model, or of several that are concatenated; fixed vectors stay as they are.
        vectors: see :func:`multiview.words.vectors.given_source`.
        words: of the vectors to read at most, from the top.
        cache: where the converted vectors are kept.

    Raises:
        UserError: no trained words in the model, malformed vectors, too few words in common, or something
            else in the folder that the expanded model goes to.
    """
    source = given_source(vectors, words)
    name = Path(stem(Path(vectors))).stem
    target = folder.with_name(f"{folder.absolute().name}-expanded-{name}")
    record = {"model": model_sha256(folder), "vectors": dict(source.record)}
    mark = target / "expanded.json"
    if mark.exists() and read_json(mark) == record:
        return target
    if not mark.exists() and target.exists() and any(target.iterdir()):
        raise UserError(f"{target}: is where the expanded model goes and holds something else; move it away")
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
    added = [member.network.words.expand(vectors) for member in members]
    note = "\nVocabulary expanded by {} words, by least squares from {}.\n"
    save_model(members, target, folder, [note.format(n, vectors.about) if n else "" for n in added])
