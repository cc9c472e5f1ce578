"""FAQ retrieval: which entry of a table of questions and answers answers a typed query (UNI section 6)."""
