"""What kubernetes.serviceaccounts computes: which namespace is meant."""

from __future__ import annotations

from dashpot.model.extern.namespaces import space

__all__ = ["space"]
