"""Custom resources: definitions checked, compiled once per version, then objects pruned, defaulted and validated."""

from dashpot.runtime.api.crd.controller import conditions, resources, schemas
from dashpot.runtime.api.crd.conversion import Caller, convert
from dashpot.runtime.api.crd.custom import CustomType
from dashpot.runtime.api.crd.structural import validate_definition, validate_definition_update

__all__ = [
    "Caller",
    "CustomType",
    "conditions",
    "convert",
    "resources",
    "schemas",
    "validate_definition",
    "validate_definition_update",
]
