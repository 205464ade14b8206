"""Tests of the scheduler and of the rules of placement."""
