"""Text in running order: documents of tokenised sentences, and labelled pair sets."""

from runtime import __version__ as __version__
