"""The shared fine-tuning kit: examples, heads, their training on the shared loop, a tiny backbone."""
