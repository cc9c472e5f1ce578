"""Who did what to whom: canonical roles of a dependency tree, and vectors that bind words to them."""
