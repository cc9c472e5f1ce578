"""Tests of the benchmarks that check something."""
