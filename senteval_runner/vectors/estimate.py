"""``--dry-run`` of the commands that encode texts and score them: the time is that of the encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from corpora.support.dry_run import Work, dry_run_text, rate
from senteval_runner.vectors.embed import Encoder, StoredEncoder, Tokens, VectorStore

SAMPLE = 256
PARTS = 4


def sample_parts(texts: Sequence[Tokens], size: int) -> list[Sequence[Tokens]]:
    """Every n-th text, ``size`` of them or up to twice as many, in about four parts for a calibration."""
    sample = texts[:: max(1, len(texts) // size)]
    step = max(1, len(sample) // PARTS)
    return [sample[start : start + step] for start in range(0, len(sample), step)]


def parameter_count(value: Any) -> int:
    """Number of parameters of the networks among an object's attributes, however deep; 0 without any."""
    import torch

    found: dict[int, int] = {}
    seen: set[int] = set()

    def visit(part: Any) -> None:
        if id(part) in seen or isinstance(part, type | ModuleType):
            return
        seen.add(id(part))
        if isinstance(part, torch.nn.Module):
            found.update({id(p): p.numel() for p in part.parameters()})
        elif isinstance(part, list | tuple):
            for each in part:
                visit(each)
        else:
            for each in getattr(part, "__dict__", {}).values():
                visit(each)

    visit(value)
    return sum(found.values())


def encoding_dry_run(
    config: Any,
    encoders: Mapping[str, Encoder],
    texts: Sequence[Tokens],
    *,
    facts: Mapping[str, str] | None = None,
    stored: bool = False,
    not_counted: str = "",
) -> str:
    """What encoding ``texts`` by every encoder would take, from some of them; nothing is kept.

    Args:
        config: options of the command.
        encoders: by name.
        texts: what is to be encoded; repeats count once.
        facts: what else to print.
        stored: whether the command keeps the vectors on disk; reports are not counted.
        not_counted: what comes after the encoding.
    """
    distinct = [list(tokens) for tokens in dict.fromkeys(map(tuple, texts))]
    parts = sample_parts(distinct, SAMPLE)
    work = []
    dimensions, size = 0, 0.0
    parameters = {name: parameter_count(encoder) for name, encoder in encoders.items()}
    for name, encoder in encoders.items():

        def encode(part: Sequence[Tokens], encoder: Encoder = encoder) -> int:
            nonlocal dimensions
            dimensions = StoredEncoder(encoder, VectorStore())(part).shape[1]
            return len(part)

        per_s = rate(encode, parts)
        size += 4.0 * dimensions * len(distinct)
        work.append(Work(name=f"{name} ({dimensions})", units=len(distinct), unit="texts", per_s=per_s))
    return dry_run_text(
        config,
        facts={**(facts or {}), "texts": f"{len(distinct):,} different ones"},
        parameters={name: count for name, count in parameters.items() if count},
        disk_bytes=size if stored else 0,
        work=work,
        not_counted=not_counted,
    )
