"""Views with random weights, the baseline that trained ones have to beat."""

from collections.abc import Sequence

from corpora.sentences import describe_value, read_elements
from multiview.encoders.registry import ViewStack, table_indices
from multiview.model_config import EncoderConfig
from multiview.words.table import WordTable
from runtime.cli import config_from_json
from runtime.device import build_in_float32
from runtime.errors import UserError, check_count


def untrained_views(
    views: Sequence[str] | str, words: WordTable | None, word_dim: int, seed: int, **options: object
) -> ViewStack:
    """Return views with random weights; the arguments are those of :meth:`MultiViewEncoder.untrained`.

    ``options`` are fields of :class:`EncoderConfig`. Raises UserError if an argument is wrong.
    """
    if words is not None and not isinstance(words, WordTable):
        raise UserError(f"untrained: words: {describe_value(words)} is no WordTable")
    word_dim = check_count(word_dim, "untrained: word_dim")
    seed = check_count(seed, "untrained: seed", 0, 2**63 - 1)
    config = config_from_json(EncoderConfig, options, where="untrained")
    views = read_elements(views.split(",") if isinstance(views, str) else views, "untrained", "views")
    names = [str(view).strip() for view in views]
    if not names:
        raise UserError("untrained: views: names none")
    table_count = 1 + max(table_indices(names), default=0)
    with build_in_float32(seed):
        table = words or WordTable.hashed(word_dim, views=table_count, seed=seed)
        return ViewStack(names, table, config)
