"""``--dry-run`` of the commands that encode texts and score them: it measures the encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from corpora.support.dry_run import Work, dry_run_text, rate
from senteval_runner.vectors.embed import Encoder, SentenceVectors, Tokens, as_vectors

SAMPLE = 256
PARTS = 4


def sample_parts(texts: Sequence[Tokens], size: int) -> list[Sequence[Tokens]]:
    """Every n-th text, between ``size`` and twice as many, in about four parts to time one by one."""
    sample = texts[:: max(1, len(texts) // size)]
    step = max(1, len(sample) // PARTS)
    return [sample[start : start + step] for start in range(0, len(sample), step)]


def parameter_count(value: Any) -> int:
    """Number of parameters of all networks reachable through an object's attributes."""
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
    encoders: Mapping[str, Encoder | SentenceVectors],
    texts: Sequence[Tokens],
    *,
    facts: Mapping[str, str] | None = None,
    stored: bool = False,
    not_counted: str = "",
) -> str:
    """Estimate what encoding ``texts`` with every encoder takes by encoding a sample; nothing is kept.

    Args:
        config: options of the command.
        encoders: encoders by name.
        texts: texts to encode; repeats count once.
        facts: further lines to print.
        stored: whether the command keeps the vectors on disk (the size of reports is not counted).
        not_counted: the work after the encoding.
    """
    distinct = [list(tokens) for tokens in dict.fromkeys(map(tuple, texts))]
    parts = sample_parts(distinct, SAMPLE)
    work, parameters, size = [], {}, 0.0
    for name, encoder in encoders.items():
        vectors = as_vectors(encoder)
        dimensions: list[int] = []

        def encode(
            part: Sequence[Tokens], vectors: SentenceVectors = vectors, dimensions: list[int] = dimensions
        ) -> int:
            dimensions.append(vectors(part).shape[1])
            return len(part)

        per_s = rate(encode, parts)
        size += 4.0 * dimensions[0] * len(distinct)
        work.append(Work(name=f"{name} ({dimensions[0]})", units=len(distinct), unit="texts", per_s=per_s))
        parameters[name] = parameter_count(vectors)  # only now is the model loaded
    return dry_run_text(
        config,
        facts={**(facts or {}), "texts": f"{len(distinct):,} different ones"},
        parameters={name: count for name, count in parameters.items() if count},
        disk_bytes=size if stored else 0,
        work=work,
        not_counted=not_counted,
    )
