"""A trained model on disk: its files, its card, and how others load it."""
