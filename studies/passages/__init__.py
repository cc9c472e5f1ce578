"""Passage ranking on frozen sentence vectors, with BM25 and cross-encoders to compare (EMP section 3)."""
