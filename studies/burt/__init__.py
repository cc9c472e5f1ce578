"""BURT (Li & Zhao 2020): a Siamese encoder trained on NLI and PPDB for words, phrases and sentences."""
