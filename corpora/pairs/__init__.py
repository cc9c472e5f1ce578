"""Labelled pairs of texts: NLI, paraphrases, similarity, phrases."""
