"""Tests of runtime/client."""
