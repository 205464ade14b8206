"""Tests of the plane, its simulated nodes, its scheduler and its metrics, on virtual time."""
