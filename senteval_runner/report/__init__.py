"""Write scores as Markdown and HTML: tables, plots, published scores."""
