"""The base of all packages: commands, errors, atomic files, devices, compiled code, the training loop."""

from importlib.util import find_spec as _find_spec
from os.path import dirname as _dirname

__version__ = "0.2.0"
"""The version of all six packages, which are one distribution."""
_HERE = _dirname(_dirname(__file__))

for _name in ("corpora", "parsing", "multiview", "senteval_runner", "studies"):
    _spec = _find_spec(_name)
    if _spec is not None and _spec.origin and _dirname(_dirname(_spec.origin)) != _HERE:
        raise ImportError(
            f"{_dirname(_spec.origin)} is another package of the name {_name} and hides this project's, in "
            f"{_HERE}: work in another folder, or install this project in an environment of its own"
        )
