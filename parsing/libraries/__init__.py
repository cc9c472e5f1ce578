"""supar and benepar: the only files that import them."""
