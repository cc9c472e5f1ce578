"""Parses a corpus into a tree cache: the driver, its worker processes, and workers on a Ray cluster."""
