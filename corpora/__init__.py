"""Reads corpora as documents of tokenised sentences, and data sets of labelled sentences and pairs."""

from runtime import __version__ as __version__
