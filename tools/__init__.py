"""Scripts for maintainers, and the folder of the data that they read."""

import os
from pathlib import Path

from runtime.errors import UserError


def data_folder() -> Path:
    """Return the folder of the real data, which the environment variable MULTIVIEW_DATA names.

    Raises UserError if it is not set.
    """
    if "MULTIVIEW_DATA" not in os.environ:
        raise UserError("set MULTIVIEW_DATA to the folder of the real data")
    return Path(os.environ["MULTIVIEW_DATA"])
