"""Subresources that are more than one side of their object: scale, eviction, binding, token, approval, streams."""
