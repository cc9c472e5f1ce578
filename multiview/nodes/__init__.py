"""Vectors of tree nodes: what a tree encoder knows of the parts of a sentence."""
