"""Questions and what answers them: FAQ tables, passage sets, judgements, lexical search."""
