"""Kubernetes objects without I/O: the resource registry, schemas, quantities, selectors, patches, ownership, tables.

An object is what its JSON says: `dict[str, Any]` as msgspec decodes it. Functions here never keep or change what they
are given unless their name says so; the API server, the traces and the clients all read the same rules.
"""
