"""Scripts of the maintainers, and the folder of their data."""

import os
from pathlib import Path

from runtime.errors import UserError


def data_folder() -> Path:
    """Return the folder of the real data, which MULTIVIEW_DATA names; else raise a UserError."""
    if "MULTIVIEW_DATA" not in os.environ:
        raise UserError("set MULTIVIEW_DATA to the folder of the real data")
    return Path(os.environ["MULTIVIEW_DATA"])
