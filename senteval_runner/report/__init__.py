"""Scores as Markdown and HTML: tables, plots, published scores."""
