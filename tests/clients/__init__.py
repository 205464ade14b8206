"""Unmodified clients against a running server."""
