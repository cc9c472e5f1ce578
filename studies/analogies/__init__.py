"""Analogies of words, phrases and sentences in one vector space (UNI: Li & Zhao 2021)."""
