"""Requests that nobody would send on purpose, and some that somebody would."""
