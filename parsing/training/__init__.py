"""Trains one parser, or both over one sentence encoder, and scores parsers on treebanks."""
