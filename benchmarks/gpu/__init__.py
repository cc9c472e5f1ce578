"""Check and measure everything on a device: ``python -m benchmarks.gpu``."""
