"""Names of encoders and what they open: model folders, other libraries' models, bags, untrained networks."""
