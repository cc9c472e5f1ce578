"""Puts what parsers found into the arrays of a batch; a sentence without a valid parse gets a fallback tree.

A dependency parse is valid if it is a tree, and a constituency parse if its spans nest. The ids of both must
be in the parser's inventories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from corpora.text import Tokens
from parsing.trees.arrays import DEFECTS, NULL_LABEL, binarise, constituency_heights, dependency_heights
from parsing.trees.batch import (
    CONST_FALLBACK,
    DEP_FALLBACK,
    Batch,
    ConstituencyParse,
    DependencyParse,
    Int,
    Int32,
    Int64,
    Inventories,
    UInt8,
    concatenated_ranges,
    offsets_of,
)

Report = Callable[[str], object]
"""Reports one line about a sentence that could not be parsed."""


def batch_of_parses(
    sentences: Sequence[Tokens],
    flags: UInt8,
    inventories: Inventories,
    dependencies: dict[int, DependencyParse] | None,
    constituents: dict[int, ConstituencyParse] | None,
    report: Report,
) -> Batch:
    """Put sentences and parses into a batch; instead of an invalid parse there is a fallback tree and a flag.

    Args:
        sentences: the tokens of each sentence.
        flags: the flags of each sentence, [B], which are updated.
        inventories: the names of the ids; treebanks may use the relation and the tag ``_``.
        dependencies: dependency parses by the index of the sentence; None leaves out these trees.
        constituents: constituency parses in the same form.
        report: called with a line for each parse that is not a tree.
    """
    id_of_type: dict[str, int] = {}
    token = [id_of_type.setdefault(word, len(id_of_type)) for tokens in sentences for word in tokens]
    offsets = offsets_of([len(tokens) for tokens in sentences])
    arrays: dict[str, Int32] = {"token": np.array(token, np.int32)}
    if dependencies is not None:
        arrays |= _dependency_fields(sentences, offsets, inventories, dependencies, flags, report)
    if constituents is not None:
        arrays |= _constituency_fields(sentences, offsets, inventories, constituents, flags, report)
    return Batch(
        sentence_offsets=offsets,
        flags=flags,
        fields=tuple(arrays),
        types=list(id_of_type),
        relations=inventories.relations,
        **arrays,
    )


def _dependency_fields(
    sentences: Sequence[Tokens],
    offsets: Int64,
    inventories: Inventories,
    dependencies: dict[int, DependencyParse],
    flags: UInt8,
    report: Report,
) -> dict[str, Int32]:
    """Return the arrays of dependency trees; a sentence without a valid tree gets a chain."""
    # At first every sentence is a chain, where the head of each word is the word before it.
    head = concatenated_ranges(np.zeros(len(sentences), np.int64), np.diff(offsets)).astype(np.int32)
    relation = np.full(offsets[-1], len(inventories.relations) - 1, np.int32)
    is_sound = np.zeros(len(sentences), np.bool_)
    for i in sorted(dependencies):
        parse, words = dependencies[i], slice(offsets[i], offsets[i + 1])
        if defect := _dependency_defect(parse, len(sentences[i]), len(inventories.relations)):
            report(fault_line("dependency tree", defect, sentences[i]))
        else:
            head[words], relation[words] = parse.heads, parse.relations
            is_sound[i] = True
    flags[~is_sound] |= DEP_FALLBACK
    return {"head": head, "relation": relation, "dep_height": dependency_heights(head, offsets)[0]}


def _dependency_defect(parse: DependencyParse, tokens: int, relations: int) -> str:
    """Return what is wrong with a parse, given the numbers of tokens and of the parser's relations, or ""."""
    if len(parse.heads) != tokens or not _are_ids(parse.relations, tokens, relations):
        return "ids outside the parser's inventories, or not one per word"
    _, defects = dependency_heights(parse.heads, np.array([0, tokens]))
    return DEFECTS.get(int(defects[0]), "")


def _constituency_fields(
    sentences: Sequence[Tokens],
    offsets: Int64,
    inventories: Inventories,
    constituents: dict[int, ConstituencyParse],
    flags: UInt8,
    report: Report,
) -> dict[str, Int32]:
    """Return the arrays of constituency trees; a sentence without a valid tree gets a flat phrase."""
    dummy_label, tag_count = inventories.dummy_label, len(inventories.tags)
    trees, tags = [], []
    for i, tokens in enumerate(sentences):
        no_tags = np.full(len(tokens), tag_count - 1, np.int32)
        whole = (np.array([value], np.int32) for value in (0, len(tokens), NULL_LABEL))
        flat_parse = ConstituencyParse(no_tags, *whole)
        parse = constituents.get(i, flat_parse)
        try:
            are_tags = _are_ids(parse.tags, len(tokens), tag_count)
            if not (are_tags and _are_ids(parse.labels, len(parse.labels), dummy_label)):
                raise ValueError("ids outside the parser's inventories")
            tree = binarise(parse, dummy_label)
        except ValueError as error:
            report(fault_line("constituency tree", error, tokens))
            parse, tree = flat_parse, binarise(flat_parse, dummy_label)
        if parse is flat_parse:
            flags[i] |= CONST_FALLBACK
        trees.append(tree)
        tags.append(parse.tags)
    nothing = [np.zeros(0, np.int32)]
    arrays = {"tag": np.concatenate(tags or nothing, dtype=np.int32)}
    for name in ("leaf_label", "left", "right", "label"):
        arrays[name] = np.concatenate([getattr(tree, name) for tree in trees] or nothing)
    arrays["const_height"] = constituency_heights(arrays["left"], arrays["right"], offsets)[0]
    return arrays


def _are_ids(values: Int, length: int, bound: int) -> bool:
    return len(values) == length and bool(((values >= 0) & (values < bound)).all())


def fault_line(name: str, fault: object, tokens: Sequence[str]) -> str:
    """Return the line that reports a fault of a parser or a tree, with the start of the sentence."""
    return f"{name}: {fault}; {' '.join(tokens)[:80]!r}"
