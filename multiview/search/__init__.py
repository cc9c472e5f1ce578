"""Searches by cosine: the rows nearest to a vector, and the sentences of a corpus nearest to a query.

    from multiview.search import semantic_search

    hits = semantic_search(encoder.encode(["How do I open a file?"]), encoder.encode(corpus), top_k=5)

``nearest.py`` searches vectors, ``collection.py`` a corpus whose vectors are kept, and ``__main__.py`` is the
command ``python -m multiview.search``.
"""

from multiview.search.nearest import Hit as Hit
from multiview.search.nearest import semantic_search as semantic_search
