"""Make a small copy of one model, or of several that become one.

    python -m multiview.compact runs/models/mine --output small
    python -m multiview.compact runs/models/a runs/models/b --normalize-parts --output small

In: model folders. Out: one model folder with word vectors of 8 bits a number and other weights as float16,
about a quarter of the size, or with ``--bits 4`` about an eighth; loaded, it computes in float32. The vectors
of several models are concatenated. Printed, and written into README.md: the sizes, and the largest change of
a vector on a sample of sentences.

Legend of dimension suffixes: n sentences, D vector size.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import Count, CountOrNone, configuration
from corpora.support.errors import UserError
from multiview.config import Bits, Pooling

if TYPE_CHECKING:
    from multiview.folder.files import Member
    from multiview.model import MultiViewEncoder


STORED = {
    8: "word vectors as int8, other weights as float16",
    4: "word vectors of 4 bits a number, matrices as int8, other weights as float16",
}


@configuration
class CompactConfig:
    """Options of ``python -m multiview.compact``."""

    models: Positional[tuple[Path, ...]]
    """Model folders, in the order of their vectors."""
    output: Path
    """Folder of the compact model."""
    normalize_parts: bool = False
    """Scale the vector of each model to length 1 before they are joined; the folder remembers it."""
    bits: Bits = 8
    """Of a number of a word vector."""
    pooling: Pooling | None = None
    """How the states of a sentence become its vector from now on; None: as in training."""
    add: tuple[str, ...] = ()
    """Views without weights to add after the others: bag (the mean of the word vectors), hash (which words,
    trigrams of them and pairs of neighbours there are, projected at random)."""
    scale: tuple[float, ...] = ()
    """Factor on the vectors of each view, added ones included; by default 1."""
    buckets: CountOrNone | None = None
    """Hash buckets for words that fixed vectors lack; None: as the model has it."""
    sample: str = "pydocs"
    """Sentences to compare vectors on: a tree cache made with the models' parsers, or a corpus (pydocs, a
    file, a folder)."""
    sentences: Count = 200
    """How many of them."""


def main(config: CompactConfig) -> None:
    """Write the compact model; print sizes and the change of vectors."""
    from corpora.support.files import read_json, write_json, write_text
    from multiview.folder.files import TIME, member_record, save_member, save_members
    from multiview.folder.saving import refuse_foreign
    from multiview.model import MultiViewEncoder

    if not config.models:
        raise UserError("name at least one model")
    parts = _parts(config.models)
    if config.output.resolve() in {folder.resolve() for folder in (*config.models, *parts)}:
        raise UserError(f"--output {config.output}: is one of the models; choose another folder")
    refuse_foreign(config.output)
    whole = MultiViewEncoder(_members(parts), normalize_parts=_normalize_parts(config))
    for member, source in zip(whole.members, parts, strict=True):
        if config.pooling is not None:
            member.network.pool(config.pooling)
        member.network.add(config.add)
        if config.scale:
            if len(config.scale) != len(member.network.views):
                raise UserError(
                    f"--scale: {len(config.scale)} factors; with --add, {source} has the views "
                    f"{', '.join(member.network.views)}"
                )
            member.network.scales = config.scale
        if config.buckets is not None:
            words = member.network.words
            if words.mode != "fixed":
                raise UserError(f"--buckets {config.buckets}: {source} has trained words, buckets included")
            member.network.words = words.with_buckets(config.buckets)
    for member, source, name in zip(whole.members, parts, parts.values(), strict=True):
        target = config.output / name
        card = (source / "README.md").read_text(encoding="utf-8")
        if (source / TIME).exists():
            write_json(target / TIME, read_json(source / TIME))
        save_member(
            target,
            member,
            card=card,
            training=member_record(source).training,
            storage="compact",
            bits=config.bits,
        )
    if len(parts) > 1:
        save_members(config.output, list(parts.values()), card="", normalize_parts=whole.normalize_parts)
    compact = MultiViewEncoder.load(config.output, "cpu")
    sizes = [_megabytes(list(parts)), _megabytes([config.output / name for name in parts.values()])]
    change, compared = _largest_change(whole, compact, config)
    note = (
        f"Compact storage: {STORED[config.bits]}; {sizes[1]:.1f} MB instead of "
        f"{sizes[0]:.1f}. Of {compared} sentences of {Path(config.sample).name}, the vector that changes "
        f"most keeps a cosine of {1 - change:.6f} to what it was."
    )
    write_text(config.output / "README.md", _card(config.output, parts, whole.normalize_parts, note))
    print(f"model    {config.output}: {compact.get_sentence_embedding_dimension()} dimensions")
    print(f"size     {sizes[1]:.1f} MB, was {sizes[0]:.1f} MB")
    print(f"vectors  largest change 1 - cosine = {change:.2e} on {compared} sentences")


def _parts(models: tuple[Path, ...]) -> dict[Path, str]:
    """The folder of every single model and the name of its subfolder in the output; ``""`` of the only one.

    Raises:
        UserError: no model in a folder.
    """
    from multiview.folder.files import member_names
    from multiview.folder.names import model_folder

    folders = [folder / name for folder in map(model_folder, models) for name in member_names(folder)]
    if len(folders) == 1:
        return {folders[0]: ""}
    return {folder: f"{place}-{folder.absolute().name}" for place, folder in enumerate(folders)}


def _members(folders: dict[Path, str]) -> list[Member]:
    from multiview.folder.files import load_members

    return [member for folder in folders for member in load_members(folder)]


def _normalize_parts(config: CompactConfig) -> bool:
    """Whether parts are scaled, as the option says or the only model does.

    Raises:
        UserError: one of several models scales its own parts, the whole does not.
    """
    from multiview.folder.files import normalizes_parts
    from multiview.folder.names import model_folder

    scaled = [model for model in config.models if normalizes_parts(model_folder(model))]
    if scaled and len(config.models) > 1 and not config.normalize_parts:
        raise UserError(f"{scaled[0]}: scales its parts; give --normalize-parts for all")
    return config.normalize_parts or bool(scaled)


def _megabytes(folders: list[Path]) -> float:
    """Size of the files that models consist of."""
    from multiview.folder.files import member_record

    return sum(file.bytes for folder in folders for file in member_record(folder).files.values()) / 1e6


def _largest_change(
    whole: MultiViewEncoder, compact: MultiViewEncoder, config: CompactConfig
) -> tuple[float, int]:
    """The largest 1 - cosine between a sentence's vectors by both models, and the number of sentences."""
    import torch

    from corpora.registry import open_corpus
    from parsing.cache.reader import TreeCache

    if (Path(config.sample) / "manifest.json").is_file():
        trees = TreeCache.open(Path(config.sample))
        batch = whole.reader.from_cache(trees, 0, min(config.sentences, len(trees)), whole.requires)
    else:
        corpus = open_corpus(config.sample, limit=config.sentences)
        tokens = [sentence.tokens for document in corpus for sentence in document.sentences]
        if not tokens:
            raise UserError(f"--sample {config.sample}: holds no sentences")
        batch = whole.reader.parse(tokens, whole.requires)
    with torch.inference_mode():
        vectors_nD, changed_nD = whole.vectors(batch), compact.vectors(batch)
        cosines_n = torch.nn.functional.cosine_similarity(vectors_nD.double(), changed_nD.double())
    return float(1 - cosines_n.min()), len(batch)


def _card(folder: Path, parts: dict[Path, str], normalize: bool, note: str) -> str:
    """README.md of the compact model: how it is stored, and the cards of its parts."""
    cards = [(source / "README.md").read_text(encoding="utf-8").rstrip() for source in parts]
    if len(cards) == 1:
        return f"{cards[0]}\n\n## Storage\n\n{note}\n"
    how = "each scaled to length 1, then concatenated" if normalize else "concatenated"
    # One level down, so that the parts' headings stand below this card's.
    below = [
        "\n".join(f"#{line}" if line.startswith("#") else line for line in card.split("\n")) for card in cards
    ]
    joined = "\n\n".join(below)
    return f"# {folder.absolute().name}\n\n{len(cards)} models, {how}.\n\n{note}\n\n{joined}\n"


cli = Command(
    CompactConfig,
    main,
    "multiview.compact",
    "A copy of a model, or of several joined, at a quarter of the size.",
    kept="the models are as they were; the same command starts over",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
