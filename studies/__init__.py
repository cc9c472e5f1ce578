"""The other four papers, one folder each, on a shared fine-tuning kit (``studies.finetune``)."""

from corpora import __version__ as __version__
