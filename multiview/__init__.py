"""Trains encoders of several views from tree caches, encodes sentences, and compares the vectors.

Its modules are commands (``encode``, ``explain``, ``readout``, ``train``, ``warm_up``), what programs import
(``model``, ``config``, ``duplicates``, ``sklearn``, ``sentence_transformers``), and what both need
(``baselines``, ``sentence_input``). The other code is in its packages, of which ``search``, ``judge`` and
``serve`` are commands as well.
"""

from runtime import __version__ as __version__
