"""Sequential multitask fine-tuning (SEQ-MT): sentiment, paraphrase, similarity, NLI one by one."""
