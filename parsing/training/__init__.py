"""The training loop that everything trained here shares, its checkpoints, and the training of parsers."""
