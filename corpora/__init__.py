"""Reads text as documents of tokenised sentences in running order, and sets of labelled sentences."""

from runtime import __version__ as __version__
