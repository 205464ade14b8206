"""Counterexamples on the real thing: store, API pipeline, informers and controllers, driven step by step."""
