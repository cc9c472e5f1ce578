"""The whole pipeline on the books in the package: ``make demo``."""

from pathlib import Path

TREES = Path("trees/books")
"""The parsed books. This path and the next ones are below the demo's output."""
MODEL = Path("models/books")
"""The model that is trained further from the builtin encoder."""
NEW_MODEL = Path("models/books-new")
"""The model that is trained from random weights."""
SCORES = Path("scores")
VECTORS = Path("vectors")
"""The embeddings that are scored."""
