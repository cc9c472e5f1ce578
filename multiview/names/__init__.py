"""What commands are given: names of encoders and what they open, options of vectors, and sentences."""
