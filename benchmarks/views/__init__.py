"""Which pair of views learns the best sentence vectors? The claim of MV's Table 2, at a small size."""
