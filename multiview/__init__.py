"""Trains encoders of several views from tree caches, encodes sentences, and compares the vectors.

Its modules are commands (``encode``, ``explain``, ``readout``, ``search``, ``train``, ``warm_up``) and what
programs import (``model``, ``config``, ``duplicates``, ``sklearn``, ``sentence_transformers``); the machinery
is in its packages, of which ``judge`` and ``serve`` are commands as well.
"""

from runtime import __version__ as __version__
