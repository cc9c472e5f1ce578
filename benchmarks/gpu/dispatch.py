"""Count the operations of a piece of torch code: on a GPU, each but the views is at least one launch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode


class Dispatches(TorchDispatchMode):
    """While it is active, every operation is counted by name, those of the backward pass included.

    Views are left out, they only make another header. An operation on a list of tensors counts once, as its
    fused kernel would. Kernels that are not torch's (numba, triton) are not seen.
    """

    ALLOCATE = ("aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default")
    """They ask torch's allocator and launch nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Called by torch for every operation."""
        if not func.is_view and str(func) not in (*self.ALLOCATE, "aten.detach.default"):
            self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))

    @property
    def launches(self) -> int:
        """How many operations were counted."""
        return self.counts.total()
