"""Reads what commands are given: names of encoders, which it opens, options of vectors, and sentences."""
