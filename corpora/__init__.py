"""Text in running order: documents of tokenised sentences, and labelled pair sets."""

__version__ = "0.2.0"
"""Of all five packages, which are one distribution."""
