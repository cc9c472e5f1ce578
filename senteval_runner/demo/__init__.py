"""The whole pipeline on text that every machine has: ``make demo``."""
