"""Write scores as Markdown, LaTeX and HTML, with plots and published scores."""
