"""Refusals of admission in Kubernetes' words: `pods "web" is forbidden: WHY`.

Source: k8s.io/apiserver pkg/admission/errors.go, release 1.34.
"""

from __future__ import annotations

from dashpot.model.objects.status import StatusError, forbidden
from dashpot.runtime.api.admit.base import Attributes


def shown_name(attributes: Attributes) -> str:
    """The name of what is written; where it has none yet, the prefix of the name to come; else `Unknown`."""
    if attributes.name:
        return attributes.name
    metadata = (attributes.object or {}).get("metadata")
    found = (metadata.get("name") or metadata.get("generateName")) if isinstance(metadata, dict) else None
    return found if isinstance(found, str) and found else "Unknown"


def refuse(attributes: Attributes, why: str) -> StatusError:
    """403 that names the object and says why."""
    return forbidden(attributes.resource.subject, shown_name(attributes), why)


def aggregate(reasons: list[str]) -> str:
    """Several reasons as Go's aggregated errors print them: `[a, b]`, each only once."""
    once = list(dict.fromkeys(reasons))
    return once[0] if len(once) == 1 else f"[{', '.join(once)}]"
