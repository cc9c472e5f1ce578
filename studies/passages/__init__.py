"""Passage ranking on frozen sentence vectors (EMP section 4.3), with BM25 and cross-encoders to compare."""
