"""Both parsers: sizes, vocabularies, the sentence encoder, scorers and decoders, model folders, batches."""
