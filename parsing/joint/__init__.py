"""Both parsers over one sentence encoder: trained together, and run with one pass over the words."""
