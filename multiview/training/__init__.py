"""Contrastive training: batches of neighbours, the objective, gradients; and the fit of a read-out."""
