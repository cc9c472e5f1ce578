"""Which encoder a name means, and the vectors of every distinct sentence, computed once."""
