"""Similarity beyond sentences: words, phrases, and pairs with and without a trained head."""
