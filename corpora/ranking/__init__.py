"""Questions with passages that may answer them, and lexical search."""
