"""Compile, for this machine's processor, what parsing, vectors, the judge and training call.

    python -m multiview.warm_up

The make targets that install run it at the end, and an image should (docs/serving.md), so that no later
command waits for a compiler. Without it the first command compiles and says so. Where the package's folder
cannot be written, NUMBA_CACHE_DIR names the folder of compiled code, for this command and all later ones.
"""

import sys
import time

from runtime.cli import Command, configuration

SENTENCES = [f"The lawyer praised doctor {n} , who had written to her twice .".split() for n in range(300)]
"""Enough of them to compile also the functions that Python itself runs on short text."""


@configuration
class WarmUpConfig:
    """Options of ``python -m multiview.warm_up``."""

    training: bool = True
    """Whether to compile what training calls, too; an image that only serves can do without."""


def main(config: WarmUpConfig) -> None:
    """Encode and judge sentences, and differentiate their vectors as training does."""
    from multiview.folder.files import BUILTIN
    from multiview.judge import Judge
    from multiview.model import MultiViewEncoder

    began = time.monotonic()
    encoder = MultiViewEncoder.load(BUILTIN, "cpu")
    encoder.encode(SENTENCES, show_progress_bar=False)
    Judge.load(source=encoder)(SENTENCES[0], SENTENCES[1])
    if config.training:
        batch = encoder.reader.parse([tuple(words) for words in SENTENCES], encoder.requires_of())
        encoder.vectors(batch).sum().backward()
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
