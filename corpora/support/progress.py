"""Progress bars with rate and ETA, silent when standard error is not a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from tqdm import tqdm


def progress(
    *, total: int | None = None, unit: str = "sent", description: str = "", **options: Any
) -> tqdm[NoReturn]:
    """A ``tqdm`` bar (rate and ETA over the whole job); silent unless stderr is a terminal.

    Args:
        total: number of units of the whole job, or None when unknown.
        unit: what is counted.
        description: what is being done, in a word or two.
        options: passed to ``tqdm`` (``initial`` for resumed work, for one).
    """
    from tqdm import tqdm

    options.setdefault("disable", not sys.stderr.isatty())
    return tqdm(total=total, unit=unit, desc=description, dynamic_ncols=True, smoothing=0.05, **options)
