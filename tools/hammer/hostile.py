"""x."""


def targets() -> list:
    """x."""
    return []
