"""Passage ranking on frozen sentence vectors (EMP section 4.3), with lexical and fine-tuned bounds."""
