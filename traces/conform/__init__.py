"""Conformance: whether what was recorded is a behaviour of the spec."""
