"""The shared fine-tuning kit: examples, heads, one training loop, a tiny backbone."""
