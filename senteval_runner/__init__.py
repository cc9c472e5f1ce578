"""Score any encoder by the SentEval protocol, and report.

from senteval_runner import evaluate
results = evaluate(encoder, ["MR", "TREC", "SICK-R"], "data/senteval")
results["MR"]["acc"]
"""

from typing import TYPE_CHECKING, Any

from runtime import __version__ as __version__

if TYPE_CHECKING:
    from senteval_runner.evaluation import EncoderError, evaluate
    from senteval_runner.protocol.config import Results, TaskResult

__all__ = ["EncoderError", "Results", "TaskResult", "evaluate"]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that ``--help`` does not wait for torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from senteval_runner import evaluation

    return getattr(evaluation, name)
