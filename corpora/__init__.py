"""Text in running order: documents of tokenised sentences, and labelled pair sets."""
