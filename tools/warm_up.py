"""Compile, for this machine's processor, what parsing, vectors and training call.

    python -m tools.warm_up

The make targets that install run it at the end, so that no later command waits for a compiler. Without it the
first command compiles and says so.
"""

import time

from multiview.folder.files import BUILTIN
from multiview.model import MultiViewEncoder

SENTENCES = [f"The lawyer praised doctor {n} , who had written to her twice .".split() for n in range(300)]
"""Enough of them to compile also the functions that Python itself runs on short text."""


def main() -> None:
    """Encode sentences as ``builtin`` does, and differentiate their vectors as training does."""
    start = time.monotonic()
    encoder = MultiViewEncoder.load(BUILTIN, "cpu")
    encoder.encode(SENTENCES, show_progress_bar=False)
    batch = encoder.reader.parse([tuple(words) for words in SENTENCES], encoder.requires_of())
    encoder.vectors(batch).sum().backward()
    print(f"compiled code for this processor is in place ({time.monotonic() - start:.0f} s)")


if __name__ == "__main__":
    main()
