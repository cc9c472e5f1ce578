"""Other libraries: their sentence encoders, what those return, and the index of FAISS."""
