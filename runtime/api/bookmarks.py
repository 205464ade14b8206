"""Bookmarks: events that carry a resourceVersion and nothing else, so that a client can start again from there."""

from __future__ import annotations

from typing import Any

from dashpot.model.objects.resource import Resource
from dashpot.runtime.api.accept import PARTIAL, TABLE, Form

Object = dict[str, Any]

EVERY_S = 60.0
"""About how often a watch gets one (upstream: a minute, and before its end)."""
INITIAL_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark behind the initial events of a streaming list (KEP-3157)."""


def bookmark(form: Form, resource: Resource, revision: int, *, initial: bool = False) -> Object:
    """The object of a BOOKMARK event, in the form of the watch's other objects."""
    metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
    if initial:
        metadata["annotations"] = {INITIAL_END: "true"}
    if form.shape == PARTIAL:
        return {"kind": "PartialObjectMetadata", "apiVersion": form.api_version, "metadata": metadata}
    plain = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    if form.shape != TABLE:
        return plain
    row = {
        "cells": [],
        "object": {"kind": "PartialObjectMetadata", "apiVersion": form.api_version, "metadata": metadata},
    }
    return {
        "kind": "Table",
        "apiVersion": form.api_version,
        "metadata": {"resourceVersion": str(revision)},
        "columnDefinitions": None,
        "rows": [row],
    }
