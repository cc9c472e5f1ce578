"""What encoders are named: model folders, other libraries' models, bags, untrained networks."""
