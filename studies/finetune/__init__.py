"""Fine-tuning that several studies share: examples, heads and their training, a tiny backbone."""
