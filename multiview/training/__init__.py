"""Contrastive training: batches of neighbours, the objective, gradients, updates, checkpoints."""
