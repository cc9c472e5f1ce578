"""Computes, by a loaded model, vectors of many sentences, and finds the subtrees of two that match."""
