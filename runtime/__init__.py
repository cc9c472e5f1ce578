"""What every package stands on: commands, errors, whole files, devices, compiled code, the training loop."""

__version__ = "0.2.0"
"""The version of all six packages, which are one distribution."""
