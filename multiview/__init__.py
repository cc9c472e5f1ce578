"""Trains encoders of several views from tree caches, encodes sentences, and compares the vectors."""

from runtime import __version__ as __version__
