"""Scores as Markdown and HTML: tables, plots, significance, published scores."""
