"""Word vectors that are made: from an encoder, from the corpus, from models of other libraries."""
