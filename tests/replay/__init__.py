"""Replays: what the model found happens on the real thing."""
