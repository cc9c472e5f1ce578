"""Trains encoders of several views from tree caches, encodes sentences, and compares the vectors.

Commands are the modules ``encode``, ``explain``, ``readout``, ``train`` and ``warm_up``, and the packages
``search``, ``judge`` and ``serve``. Programs import ``model``, ``config``, ``duplicates``, ``sklearn`` and
``sentence_transformers``. Both use ``baselines``, ``sentence_input`` and the other packages.
"""

from runtime import __version__ as __version__
