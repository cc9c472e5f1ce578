"""What fine-tuning shares: towers, heads, example streams, one loop, scores."""
