"""What every package stands on: commands, errors, whole files, devices, compiled code, the training loop."""

__version__ = "0.2.0"
"""Of all six packages, which are one distribution."""
