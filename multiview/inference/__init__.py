"""What a loaded model computes: vectors of many sentences, and the matching subtrees of two sentences."""
