"""Sequential multitask fine-tuning (SEQ-MT): sentiment, paraphrase, similarity, NLI in turn."""
