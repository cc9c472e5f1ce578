"""Scripts of the maintainers."""
