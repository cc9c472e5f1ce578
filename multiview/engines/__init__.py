"""Tree engines: how the recursion over the trees of a batch is carried out."""
