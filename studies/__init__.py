"""Experiments of the papers, a folder for each study, on ``studies.runner`` and ``studies.finetune``."""

from runtime import __version__ as __version__
