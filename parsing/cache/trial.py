"""Read shards that may be damaged, in a process of their own that may hang (:mod:`parsing.cache.checksums`).

Input: a JSON list of files on standard input. Output: ``ready``, then a line for each file with its size,
SHA-256 and content hash. The process ends at a file that it cannot read.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path

from corpora.support.errors import UserError
from corpora.support.files import sha256_file
from parsing.cache.checksums import READY, TRIAL_S
from parsing.cache.shard_file import content_sha256, read_shard


def main() -> int:
    """Answer for each file until one cannot be read."""
    paths = [Path(name) for name in json.load(sys.stdin)]
    print(READY, flush=True)
    with open(os.devnull, "w") as nowhere:
        for path in paths:
            # The only watch that ends a process whose main thread never leaves a C function, on any system.
            faulthandler.dump_traceback_later(TRIAL_S, exit=True, file=nowhere)
            try:
                content = content_sha256(*read_shard(path))
                print(path.stat().st_size, sha256_file(path), content, flush=True)
            except (UserError, OSError):
                return 1
            finally:
                faulthandler.cancel_dump_traceback_later()
    return 0
