"""What both parsers are built of: features, sentence encoders, the training loop, model folders."""
