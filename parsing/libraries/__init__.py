"""Adapters to supar and benepar, which no other modules import."""
