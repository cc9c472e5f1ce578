"""What a loaded model does with sentences: vectors of many, and the subtrees of two that match."""
