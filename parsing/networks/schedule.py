"""The learning rate over a run: a factor on the peak rate, which is a warm-up times a decay.

Every training loop here multiplies :func:`ramp` for its warm-up with :func:`ramp` or :func:`cosine` for its
decay. They measure a run in different units (steps, epochs, minutes), so the caller chooses the unit.
"""

from __future__ import annotations

import math


def ramp(part: float, whole: float) -> float:
    """min(part / whole, 1), and 1 where ``whole`` is 0.

    A warm-up over the first w of a run is ``ramp(done, w)``; a linear decay to zero over the rest of a run
    of length r is ``ramp(left, r - w)``.
    """
    return min(part / whole, 1.0) if whole else 1.0


def cosine(progress: float) -> float:
    """0.1 + 0.45 (1 + cos(π p)): falls from 1 to 0.1 while ``progress`` p goes from 0 to 1."""
    return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))
