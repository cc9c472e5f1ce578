"""``--dry-run`` of the commands that encode texts and score them: the time is that of the encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from corpora.support.estimate import Work, dry_run_text, rate
from senteval_runner.embed import Encoder, StoredEncoder, Tokens, VectorStore

SAMPLE = 256
PARTS = 4


def sample_parts(texts: Sequence[Tokens], size: int) -> list[Sequence[Tokens]]:
    """Every n-th text, ``size`` of them or up to twice as many, in about four parts for a calibration."""
    sample = texts[:: max(1, len(texts) // size)]
    step = max(1, len(sample) // PARTS)
    return [sample[start : start + step] for start in range(0, len(sample), step)]


def encoding_dry_run(
    config: Any,
    encoders: Mapping[str, Encoder],
    texts: Sequence[Tokens],
    *,
    facts: Mapping[str, str] | None = None,
    not_counted: str = "",
) -> str:
    """What encoding ``texts`` by every encoder would take, from some of them; nothing is kept.

    Args:
        config: options of the command.
        encoders: by name.
        texts: what is to be encoded; repeats count once.
        facts: what else to print.
        not_counted: what comes after the encoding.
    """
    distinct = [list(tokens) for tokens in dict.fromkeys(map(tuple, texts))]
    parts = sample_parts(distinct, SAMPLE)
    work = []
    dimensions = 0
    for name, encoder in encoders.items():

        def encode(part: Sequence[Tokens], encoder: Encoder = encoder) -> int:
            nonlocal dimensions
            dimensions = StoredEncoder(encoder, VectorStore())(part).shape[1]
            return len(part)

        per_s = rate(encode, parts)
        work.append(Work(name=f"{name} ({dimensions})", units=len(distinct), unit="texts", per_s=per_s))
    return dry_run_text(
        config,
        facts={**(facts or {}), "texts": f"{len(distinct):,} different ones"},
        work=work,
        not_counted=not_counted,
    )
