"""The other four papers, one folder each, on a shared fine-tuning kit (``studies.finetune``)."""

from runtime import __version__ as __version__
