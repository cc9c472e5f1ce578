"""Speeds beside the oracles of the tests; each module is a command: ``python -m tests.speed.parsing``."""
