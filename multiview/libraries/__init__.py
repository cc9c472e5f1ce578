"""Adapters of other libraries: their encoders, the arrays that these return, and the index of FAISS."""
