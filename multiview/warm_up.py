"""Compile the functions that parsing, encoding, judging and training call, for this machine's processor.

    python -m multiview.warm_up

The make targets that install the package run it last, and a container image should (docs/serving.md), so
that no later command waits for the compiler. Otherwise the first command compiles, and says so. If the folder
of the package is not writable, set NUMBA_CACHE_DIR to a folder for compiled code, for all commands.
"""

import sys
import time

from runtime.cli import Command, configuration

SENTENCES = [f"The lawyer praised doctor {n} , who had written to her twice .".split() for n in range(300)]
"""Sentences to encode. They are many, because some functions are compiled only for a long text."""


@configuration
class WarmUpConfig:
    """Options of ``python -m multiview.warm_up``."""

    training: bool = True
    """Whether to compile what training calls, too; an image that only serves can do without."""


def main(config: WarmUpConfig) -> None:
    """Encode and judge sentences, and compute gradients as training does."""
    from multiview.judge import Judge
    from multiview.model import MultiViewEncoder
    from multiview.model_config import BUILTIN

    began = time.monotonic()
    encoder = MultiViewEncoder.load(BUILTIN, "cpu")
    encoder.encode(SENTENCES, show_progress_bar=False)
    Judge.load(source=encoder)(SENTENCES[0], SENTENCES[1])
    if config.training:
        batch = encoder.reader.parse([tuple(words) for words in SENTENCES], encoder.requires_of())
        encoder.vectors_of_batch(batch).sum().backward()
    print(f"compiled code for this processor is in place ({time.monotonic() - began:.0f} s)")


cli = Command(
    WarmUpConfig,
    main,
    "multiview.warm_up",
    "Compile, once, what runs compiled on this machine's processor.",
    kept_work="what was compiled is kept",
)


if __name__ == "__main__":
    sys.exit(cli())
