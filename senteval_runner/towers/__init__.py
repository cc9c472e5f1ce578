"""Encoders opened up: transformer and tree towers, their layers and poolings."""
