"""The whole pipeline on the books in the package: ``make demo``."""
