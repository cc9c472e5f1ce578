"""Measure us and the peer in one run, alternating; each command ends with one line of JSON."""
