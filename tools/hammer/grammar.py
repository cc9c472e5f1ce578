"""Made-up documents of our formats, and the ways to break them."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

STRANGE: tuple[str, ...] = (
    *("", " ", "0", "-1", "1.5", "nan", "inf", "1e999", "9" * 5000, "-" * 300, "_", "x" * 70_000),
    *("\x00", "\x1b[31m", "\u2028", "\ufeff", "\u202e", "🙂", "e\u0301", "\r", "\t", "\n", "\\n", '"', "'"),
    *("<script>alert(1)</script>", "((((", "))))", "../../etc/passwd", "%s%n", "{}", "null", "True"),
)
"""What stands where a reader expects a word or a number."""
STRANGE_BYTES = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xfe\xff", b"\x00" * 40, b"\r\r\n", b"\x1f\x8b")
STRANGE_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 10**30, 1.5, 1e308, "", "..", "x" * 5000, [], {}, [[]], [None], {"": {}}),
    *("../../..", "config.json", ".", "\x00", ["."], ["x", "x"], -(2**63), 2**63),
)
DEPTH = 200_000
"""Brackets within brackets."""
TAGS = ("NN", "VB", "DT", "-LRB-", "``")


def word(rng: random.Random) -> str:
    """A word; seldom a strange one without white space."""
    if rng.random() < 0.03:
        return "".join(rng.choice(STRANGE).split())[:50] or "x"
    return "".join(rng.choices("abcdefgé日", k=rng.randint(1, 7)))


def conllu(rng: random.Random) -> str:
    """A sentence with a valid tree, sometimes with comments, ranges and empty nodes."""
    count = rng.randint(1, 9)
    order = list(range(1, count + 1))
    rng.shuffle(order)
    heads = {node: rng.choice(order[:place]) if place else 0 for place, node in enumerate(order)}
    lines = [f"# newdoc id = d{rng.randint(0, 9)}"] * (rng.random() < 0.2) + ["# text = x"]
    for node in range(1, count + 1):
        if rng.random() < 0.05 and node < count:
            lines.append(f"{node}-{node + 1}\tab" + "\t_" * 8)
        relation = "root" if heads[node] == 0 else rng.choice(["nsubj", "obj", "det"])
        form = word(rng)
        lines.append(f"{node}\t{form}\t{form}\tNOUN\t{rng.choice(TAGS)}\t_\t{heads[node]}\t{relation}\t_\t_")
        if rng.random() < 0.03:
            lines.append(f"{node}.1\te" + "\t_" * 8)
    return "\n".join(lines) + "\n\n"


def brackets(rng: random.Random) -> str:
    """A bracketed tree over several lines."""

    def node(depth: int) -> str:
        if depth == 0 or rng.random() < 0.25:
            form = word(rng).replace("(", "-LRB-").replace(")", "-RRB-")
            return f"({rng.choice(TAGS)} {form})"
        inside = rng.choice([" ", "\n  "]).join(node(depth - 1) for _ in range(rng.randint(1, 3)))
        return f"({rng.choice(['S', 'NP', 'VP'])} {inside})"

    return f"(ROOT (S {node(3)} {node(1)}))\n"


def break_text(rng: random.Random, text: str) -> bytes:
    """One to four faults in a file of lines and fields."""
    for _ in range(rng.randint(1, 4)):
        lines = text.split("\n")
        place = rng.randrange(len(lines))
        separator = next((mark for mark in ("\t", " ||| ", ",", " ") if mark in lines[place]), " ")
        fields = lines[place].split(separator)
        where = rng.randrange(len(fields))
        match rng.randrange(9):
            case 0:
                del fields[where]
            case 1:
                fields[where] = rng.choice(STRANGE)
            case 2:
                fields.insert(where, rng.choice(STRANGE))
            case 3:
                fields[where] += rng.choice(STRANGE)
            case 4:
                fields = [rng.choice(["(", "[", "{"]) * rng.choice([3, 50, 5000])]
            case 5:
                fields = []
            case 6:
                lines.insert(rng.randrange(len(lines)), lines[place])
            case 7:
                other = rng.randrange(len(lines))
                lines[other] = separator.join(fields[::-1])
            case _:
                fields = [separator.join(fields).replace(separator, rng.choice(["\t", " ", "", "  "]))]
        lines[place] = separator.join(fields)
        text = "\n".join(lines)
    data = text.encode("utf-8", "surrogatepass")
    return break_bytes(rng, data) if rng.random() < 0.3 else data


def break_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bytes flipped, cut, inserted, doubled or all gone."""
    if not data:
        return rng.choice(STRANGE_BYTES)
    place = rng.randrange(len(data))
    match rng.randrange(7):
        case 0 | 1:
            return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]
        case 2:
            return data[:place]
        case 3:
            return data[:place] + rng.choice(STRANGE_BYTES) + data[place:]
        case 4:
            length = rng.choice([1, 16, 512])
            return data[:place] + bytes(min(length, len(data) - place)) + data[place + length :]
        case 5:
            return data + data[:place]
        case _:
            return b"" if rng.random() < 0.2 else data[place:]


def break_json(rng: random.Random, text: str) -> bytes:
    """A value replaced, moved, doubled or gone; sometimes nesting or digits without end."""
    draw = rng.random()
    if draw < 0.15:
        return break_bytes(rng, text.encode())
    value = json.loads(text)
    for _ in range(rng.randint(1, 3)):
        holder, key = _place(rng, value)
        if holder is None:
            value = copy.deepcopy(rng.choice(STRANGE_VALUES))
        elif rng.random() < 0.2:
            del holder[key]
        elif rng.random() < 0.2 and isinstance(holder, dict):
            holder[rng.choice(["members", "extra", "format", ""])] = copy.deepcopy(rng.choice(STRANGE_VALUES))
        else:
            holder[key] = copy.deepcopy(rng.choice(STRANGE_VALUES))
    changed = json.dumps(value)
    if draw < 0.25:  # what json.dumps would not write
        endless = rng.choice(["[" * DEPTH + "]" * DEPTH, '{"a":' * DEPTH, "9" * 6000, "NaN", "-Infinity"])
        for known in ("null", "true", "0", '""'):
            if known in changed:
                return changed.replace(known, endless, 1).encode()
        return endless.encode()
    return changed.encode("utf-8", "surrogatepass")


def _place(rng: random.Random, value: Any) -> tuple[Any, Any]:
    """A random place inside a value: its holder and key; (None, None) is the whole."""
    holder, key = None, None
    while isinstance(value, dict | list) and value and (holder is None or rng.random() < 0.75):
        holder, key = value, rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        value = value[key]
    return holder, key
