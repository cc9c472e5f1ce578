"""FAQ retrieval: which entry of a table of questions and answers serves a typed query (UNI section 6)."""
