"""The ten probing tasks: labelled items, balanced and split as in Conneau et al. (2018)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from senteval_runner.probing import structure
from senteval_runner.probing.somo import BigramReplacer
from senteval_runner.probing.structure import MAX_TOKENS, MIN_TOKENS, Annotated

SPLITS: Final = (("tr", 10), ("va", 1), ("te", 1))
WORD_CONTENT_RANKS: Final = (2000, 3000)
TOP_SEQUENCES: Final = 19
DEPTHS: Final = range(5, 13)


@dataclass(frozen=True, slots=True)
class Item:
    """One labelled sentence; items of one ``group`` never fall into different splits."""

    label: str
    text: str
    group: Hashable


def _by_structure(
    answer: Callable[[Annotated], str | None],
) -> Callable[[list[Annotated], Random], list[Item]]:
    def items(sentences: list[Annotated], rng: Random) -> list[Item]:
        labelled = ((a, answer(a)) for a in sentences)
        return [Item(label, a.text, a.text) for a, label in labelled if label is not None]

    return items


def _by_target(
    answer: Callable[[Annotated], tuple[str, str] | None],
) -> Callable[[list[Annotated], Random], list[Item]]:
    """Split by the word that carries the answer, so that no test word is seen in training."""

    def items(sentences: list[Annotated], rng: Random) -> list[Item]:
        answers = ((a, answer(a)) for a in sentences)
        return [Item(found[0], a.text, found[1]) for a, found in answers if found is not None]

    return items


def _word_content(sentences: list[Annotated], rng: Random) -> list[Item]:
    """Sentences with exactly one of 1,000 mid-frequency words; words too rare to split are left out."""
    counts = Counter(word.lower() for a in sentences for word in a.tokens if word.isalpha())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    low, high = WORD_CONTENT_RANKS
    targets = set(ranked[low:high])
    items: list[Item] = []
    for a in sentences:
        present = [word for word in map(str.lower, a.tokens) if word in targets]
        if len(present) == 1:
            items.append(Item(present[0], a.text, a.text))
    enough = Counter(item.label for item in items)
    return [item for item in items if enough[item.label] >= sum(weight for _, weight in SPLITS)]


def _tree_depth(sentences: list[Annotated], rng: Random) -> list[Item]:
    """Depth, decorrelated from length: for each length at most as many items of each depth."""
    cells: dict[tuple[int, str], list[Item]] = defaultdict(list)
    for a in sentences:
        label = structure.depth(a)
        if label is not None and int(label) in DEPTHS:
            cells[len(a.tokens), label].append(Item(label, a.text, a.text))
    items = []
    for length in sorted({length for length, _ in cells}):
        present = sorted(label for at, label in cells if at == length)
        if len(present) < 2:
            continue  # this length would give the depth away
        quota = sorted(len(cells[length, label]) for label in present)[len(present) // 2]
        for label in present:
            items.extend(rng.sample(cells[length, label], min(quota, len(cells[length, label]))))
    return items


def _top_constituents(sentences: list[Annotated], rng: Random) -> list[Item]:
    labelled = [(a, structure.top_constituents(a)) for a in sentences]
    counts = Counter(label for _, label in labelled if label is not None)
    frequent = set(sorted(counts, key=lambda label: (-counts[label], label))[:TOP_SEQUENCES])
    return [
        Item(label if label in frequent else "OTHER", a.text, a.text)
        for a, label in labelled
        if label is not None
    ]


def _halves(
    sentences: list[Annotated],
    rng: Random,
    change: Callable[[Annotated], Sequence[str] | None],
    labels: tuple[str, str],
) -> list[Item]:
    """Every second eligible sentence changed; ``labels`` are (changed, original)."""
    eligible = [(a, changed) for a in sentences if (changed := change(a)) is not None]
    rng.shuffle(eligible)
    half = len(eligible) // 2
    inverted = [Item(labels[0], " ".join(tokens), a.text) for a, tokens in eligible[:half]]
    return inverted + [Item(labels[1], a.text, a.text) for a, _ in eligible[half : 2 * half]]


def _bigram_shift(sentences: list[Annotated], rng: Random) -> list[Item]:
    def shift(a: Annotated) -> Sequence[str] | None:
        words = a.tokens
        places = [
            j
            for j in range(len(words) - 1)
            if words[j][0].isalnum()
            and words[j + 1][0].isalnum()
            and words[j].lower() != words[j + 1].lower()
        ]
        if not places:
            return None
        j = rng.choice(places)
        return (*words[:j], words[j + 1], words[j], *words[j + 2 :])

    return _halves(sentences, rng, shift, ("I", "O"))


def _odd_man_out(sentences: list[Annotated], rng: Random) -> list[Item]:
    replacer = BigramReplacer(sentences)
    return _halves(sentences, rng, lambda a: replacer.replace(a, rng), ("C", "O"))


def _coordination_inversion(sentences: list[Annotated], rng: Random) -> list[Item]:
    def invert(a: Annotated) -> Sequence[str] | None:
        borders = structure.coordinated_clauses(a)
        if borders is None:
            return None
        tag = (a.sentence.tags or ("",))[0]
        proper = tag.startswith("NNP") or a.tokens[0] == "I" or a.tokens[0].startswith("I'")
        return structure.invert_clauses(a.tokens, borders, proper)

    return _halves(sentences, rng, invert, ("I", "O"))


BUILDERS: Final[dict[str, Callable[[list[Annotated], Random], list[Item]]]] = {
    "Length": _by_structure(structure.length_bin),
    "WordContent": _word_content,
    "Depth": _tree_depth,
    "TopConstituents": _top_constituents,
    "BigramShift": _bigram_shift,
    "Tense": _by_target(structure.tense),
    "SubjNumber": _by_target(lambda a: structure.noun_number(a, "nsubj")),
    "ObjNumber": _by_target(lambda a: structure.noun_number(a, "obj")),
    "OddManOut": _odd_man_out,
    "CoordinationInversion": _coordination_inversion,
}
NEEDS_PARSE: Final = frozenset(BUILDERS) - {"Length", "WordContent", "BigramShift"}
"""Tasks whose labels come from trees or tags: claims about them need gold ones."""


def balance(items: list[Item], rng: Random) -> list[Item]:
    """As many items of each label as the rarest has, after dropping labels far below the mean (under 2 %)."""
    by_label: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_label[item.label].append(item)
    floor = 0.02 * len(items) / max(len(by_label), 1)
    kept = {label: found for label, found in by_label.items() if len(found) >= floor}
    quota = min((len(found) for found in kept.values()), default=0)
    return [item for label in sorted(kept) for item in rng.sample(kept[label], quota)]


def split(items: list[Item], rng: Random) -> dict[str, list[Item]]:
    """Items in ``tr``, ``va``, ``te`` about 10:1:1 within each label, whole groups together."""
    groups: dict[Hashable, list[Item]] = defaultdict(list)
    for item in items:
        groups[item.group].append(item)
    order = sorted(groups, key=repr)
    rng.shuffle(order)
    # Large groups first: a frequent verb placed last could overfill a small split.
    order.sort(key=lambda group: -len(groups[group]))
    totals = Counter(item.label for item in items)
    weight = dict(SPLITS)
    filled: dict[str, Counter[str]] = {name: Counter() for name in weight}
    parts: dict[str, list[Item]] = {name: [] for name in weight}
    for group in order:
        label = groups[group][0].label
        fraction = {
            name: filled[name][label] * sum(weight.values()) / (weight[name] * totals[label])
            for name in weight
        }
        name = min(weight, key=lambda name: (fraction[name], -weight[name]))
        parts[name].extend(groups[group])
        filled[name].update(item.label for item in groups[group])
    for part in parts.values():
        rng.shuffle(part)
    return parts


def build(
    task: str, sentences: Sequence[Annotated], *, seed: int, limit: int | None = None
) -> dict[str, list[Item]]:
    """All items of one task, deduplicated, balanced and split; deterministic for a seed.

    Args:
        task: a key of :data:`BUILDERS`.
        sentences: the corpus; sentences outside 5 to 28 tokens are left out.
        seed: of every random choice.
        limit: at most this many items in all, or None.
    """
    rng = Random(f"{seed} {task}")
    unique = {a.text: a for a in sentences if MIN_TOKENS <= len(a.tokens) <= MAX_TOKENS}
    items = balance(BUILDERS[task](list(unique.values()), rng), rng)
    if limit is not None and len(items) > limit:
        items = balance(rng.sample(items, limit), rng)
    return split(items, rng)
