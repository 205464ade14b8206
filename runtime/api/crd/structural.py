"""What a CustomResourceDefinition must be, on create and on update.

Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, release 1.34. Metadata is not
this module's business, but for the name.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from dashpot.model.objects import names
from dashpot.model.objects.status import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from dashpot.runtime.api.crd.celrules import compile_rules
from dashpot.runtime.api.crd.controller import established
from dashpot.runtime.api.crd.schema import validate_schema

Object = dict[str, Any]
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
MAX_SELECTABLE = 8
ROOT_KEYS = frozenset(
    "type description format title maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern "
    "maxItems minItems uniqueItems multipleOf required items properties externalDocs example "
    "x-kubernetes-preserve-unknown-fields x-kubernetes-validations".split()
)
APPROVAL = "api-approved.kubernetes.io"
PROTECTED = ("k8s.io", "kubernetes.io")
ENHANCEMENT = "see https://github.com/kubernetes/enhancements/pull/1111"
IMMUTABLE = "field is immutable"


def validate_definition(definition: Object) -> list[Cause]:
    """What is wrong with a new definition, defaults (see `model/objects/defaults`) already filled in."""
    spec: Object = definition.get("spec") or {}
    causes: list[Cause] = []
    name = (definition.get("metadata") or {}).get("name", "")
    wanted = f"{(spec.get('names') or {}).get('plural', '')}.{spec.get('group', '')}"
    if name and name != wanted:
        causes.append(invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    causes += _spec(spec, {})
    causes += _approval(definition, None)
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.append(invalid_value("spec.preserveUnknownFields", True, text))
    return causes


def validate_definition_update(definition: Object, old: Object) -> list[Cause]:
    """What is wrong with a changed definition."""
    spec, before = definition.get("spec") or {}, old.get("spec") or {}
    known = {version["name"]: version for version in before.get("versions") or ()}
    causes = _spec(spec, known)
    now, was = spec.get("names") or {}, before.get("names") or {}
    pairs: list[tuple[str, Any, Any]] = []
    if established(old):
        pairs += [
            ("spec.scope", spec.get("scope"), before.get("scope")),
            ("spec.names.kind", now.get("kind"), was.get("kind")),
        ]
    pairs += [
        ("spec.group", spec.get("group"), before.get("group")),
        ("spec.names.plural", now.get("plural"), was.get("plural")),
    ]
    causes += [invalid_value(path, new, IMMUTABLE) for path, new, given in pairs if new != given]
    causes += validate_stored_versions(_storing(definition))
    causes += _approval(definition, old)
    if spec.get("preserveUnknownFields") and not before.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.append(invalid_value("spec.preserveUnknownFields", True, text))
    return causes


def _storing(definition: Object) -> Object:
    """The definition as it will be when its storage version is counted among those that were stored."""
    status: Object = definition.get("status") or {}
    versions = (definition.get("spec") or {}).get("versions") or ()
    storage = [version["name"] for version in versions if version.get("storage")]
    stored = [*(status.get("storedVersions") or ())]
    missing = [name for name in storage if name not in stored]
    return {**definition, "status": {**status, "storedVersions": [*stored, *missing]}}


def validate_stored_versions(definition: Object) -> list[Cause]:
    """Versions in which objects may be stored must stay in the definition."""
    stored = (definition.get("status") or {}).get("storedVersions") or []
    path = "status.storedVersions"
    if not stored:
        return []
    causes: list[Cause] = []
    versions = (definition.get("spec") or {}).get("versions") or []
    known = {version["name"] for version in versions}
    for version in versions:
        if version.get("storage") and version["name"] not in stored:
            causes.append(invalid_value(path, stored, f"must have the storage version {version['name']}"))
    for at, name in enumerate(stored):
        if name not in known:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            causes.append(invalid_value(f"{path}[{at}]", name, text))
    return causes


def _spec(spec: Object, known: dict[str, Object]) -> list[Cause]:
    causes: list[Cause] = []
    group = spec.get("group") or ""
    if not group:
        causes.append(required("spec.group"))
    elif wrong := names.dns_subdomain(group):
        causes.append(invalid_value("spec.group", group, ",".join(wrong)))
    elif "." not in group:
        causes.append(invalid_value("spec.group", group, "should be a domain with at least one dot"))
    causes += _choice("spec.scope", spec.get("scope"), ["Cluster", "Namespaced"])
    versions: list[Object] = spec.get("versions") or []
    if spec.get("preserveUnknownFields") is not True or not versions:
        for at, version in enumerate(versions):
            if not (version.get("schema") or {}).get("openAPIV3Schema"):
                path = f"spec.versions[{at}].schema.openAPIV3Schema"
                causes.append(required(path, "schemas are required"))
    for at, version in enumerate(versions):
        causes += _version(version, f"spec.versions[{at}]", known.get(version.get("name") or ""))
    given = [version.get("name") for version in versions]
    if len(set(given)) < len(given):
        causes.append(invalid_value("spec.versions", versions, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(invalid_value("spec.versions", versions, text))
    causes += _names(spec.get("names") or {}, "spec.names")
    return causes + _conversion(spec.get("conversion"), "spec.conversion")


def _choice(path: str, value: Any, known: list[str]) -> list[Cause]:
    if not value:
        return [required(path)]
    return [] if value in known else [not_supported(path, value, known)]


def _names(given: Object, path: str) -> list[Cause]:
    causes = [required(f"{path}.{name}") for name in ("plural", "singular", "kind", "listKind") if not given.get(name)]
    for name in ("plural", "singular"):
        if given.get(name) and (wrong := names.dns_label_1035(given[name])):
            causes.append(invalid_value(f"{path}.{name}", given[name], ",".join(wrong)))
    for name in ("kind", "listKind"):
        if given.get(name) and (wrong := names.dns_label_1035(given[name].lower())):
            text = f"may have mixed case, but should otherwise match: {','.join(wrong)}"
            causes.append(invalid_value(f"{path}.{name}", given[name], text))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        causes.append(invalid_value(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same"))
    for name in ("shortNames", "categories"):
        for at, value in enumerate(given.get(name) or ()):
            if wrong := names.dns_label_1035(value):
                causes.append(invalid_value(f"{path}.{name}[{at}]", value, ",".join(wrong)))
    return causes


def _version(version: Object, path: str, known: Object | None) -> list[Cause]:
    name = version.get("name") or ""
    causes: list[Cause] = []
    if wrong := names.dns_label_1035(name):
        causes.append(invalid_value(f"{path}.name", name, ",".join(wrong)))
    causes += _deprecation(version, path)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    here = f"{path}.schema.openAPIV3Schema"
    subresources: Object = version.get("subresources") or {}
    if schema:
        if "status" in subresources:
            causes += _root(schema, here)
        if schema.get("nullable"):
            causes.append(forbidden_field(f"{here}.nullable", "nullable cannot be true at the root"))
        wrong_schema = validate_schema(schema, here)
        causes += wrong_schema
        # A schema that was accepted as it is was compiled then; its rules may only have become dearer to estimate.
        unchanged = known is not None and (known.get("schema") or {}).get("openAPIV3Schema") == schema
        if not wrong_schema and not unchanged:
            causes += compile_rules(schema, here)[1]
    causes += _scale(subresources.get("scale"), f"{path}.subresources.scale")
    for at, column in enumerate(version.get("additionalPrinterColumns") or ()):
        causes += _column(column, f"{path}.additionalPrinterColumns[{at}]")
    if version.get("selectableFields"):
        causes += _selectable(version["selectableFields"], schema or {}, f"{path}.selectableFields")
    return causes


def _deprecation(version: Object, path: str) -> list[Cause]:
    warning, where = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if warning is None:
        return []
    if not version.get("deprecated"):
        return [invalid_value(where, warning, "can only be set for deprecated versions")]
    causes: list[Cause] = []
    if len(warning) > 256:
        causes.append(invalid_value(where, warning, "must be <= 256 characters long"))
    if not warning:
        causes.append(invalid_value(where, warning, "must not be an empty string"))
    at = next((at for at, char in enumerate(warning) if not char.isprintable()), None)
    if at is not None:
        text = f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
        causes.append(invalid_value(where, warning, text))
    return causes


def _root(schema: Object, path: str) -> list[Cause]:
    kind = schema.get("type")
    if kind and kind != "object":
        text = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [invalid_value(f"{path}.type", kind, text)]
    if any(value and key not in ROOT_KEYS for key, value in schema.items() if key != "nullable"):
        shown = " ".join(sorted(ROOT_KEYS))
        text = f"only [{shown}] fields are allowed at the root of the schema if the status subresource is enabled"
        return [invalid_value(path, schema, text)]
    return []


def _scale(scale: Object | None, path: str) -> list[Cause]:
    if scale is None:
        return []
    causes: list[Cause] = []
    for name, starts, told, needed in (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec", True),
        ("statusReplicasPath", (".status.",), "should be a json path under .status", True),
        ("labelSelectorPath", (".spec.", ".status."), "should be a json path under either .spec or .status", False),
    ):
        value, where = scale.get(name) or "", f"{path}.{name}"
        if not value:
            if needed:
                causes.append(required(where))
        elif not value.startswith("."):
            causes.append(invalid_value(where, value, "must be a simple json path starting with ."))
        elif not value.startswith(starts):
            causes.append(invalid_value(where, value, told))
    return causes


def _column(column: Object, path: str) -> list[Cause]:
    causes = [] if column.get("name") else [required(f"{path}.name")]
    kind, form, where = column.get("type"), column.get("format"), column.get("jsonPath")
    told = f"must be one of {','.join(COLUMN_TYPES)}"
    if not kind:
        causes.append(required(f"{path}.type", told))
    elif kind not in COLUMN_TYPES:
        causes.append(invalid_value(f"{path}.type", kind, told))
    if form and form not in COLUMN_FORMATS:
        causes.append(invalid_value(f"{path}.format", form, f"must be one of {','.join(COLUMN_FORMATS)}"))
    if not where:
        causes.append(required(f"{path}.jsonPath"))
    elif not where.startswith("."):
        causes.append(invalid_value(f"{path}.jsonPath", where, "must be a simple json path starting with ."))
    return causes


def _selectable(rows: list[Object], schema: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for at, row in enumerate(rows):
        where, value = f"{path}[{at}].jsonPath", row.get("jsonPath") or ""
        if not value:
            causes.append(required(where))
            continue
        found = _field(value, schema)
        if isinstance(found, str):
            causes.append(invalid_value(where, value, f"is an invalid path: {found}"))
            continue
        if value.startswith(".metadata"):
            causes.append(invalid_value(where, value, "must not point to fields in metadata"))
        if found.get("type") not in ("string", "boolean", "integer"):
            text = (
                "must point to a field of type string, boolean or integer. Enum string fields and strings with "
                "formats are allowed."
            )
            causes.append(invalid_value(where, value, text))
        if value in seen:
            causes.append(duplicate(where, value))
        seen.add(value)
    if len(seen) > MAX_SELECTABLE:
        text = f"Too many: {len(seen)}: must have at most {MAX_SELECTABLE} items"
        causes.append(Cause(path, text, "FieldValueTooMany"))
    return causes


def _field(path: str, schema: Object) -> Object | str:
    """The schema at a simple path, or why there is none."""
    if not path.startswith("."):
        return "must start with a dot"
    found = schema
    for part in path[1:].split("."):
        inner = (found.get("properties") or {}).get(part)
        if not isinstance(inner, dict):
            return f"does not refer to a valid field: {part}"
        found = inner
    return found


def _conversion(conversion: Object | None, path: str) -> list[Cause]:
    if conversion is None:
        return []
    causes = _choice(f"{path}.strategy", conversion.get("strategy"), ["None", "Webhook"])
    webhook: Object | None = conversion.get("webhook")
    if conversion.get("strategy") != "Webhook":
        if webhook is not None:
            text = "should not be set when strategy is not set to Webhook"
            causes.append(forbidden_field(f"{path}.webhook", text))
        return causes
    if not webhook or not webhook.get("clientConfig"):
        return [*causes, required(f"{path}.webhook.clientConfig", "required when strategy is set to Webhook")]
    client: Object = webhook["clientConfig"]
    where = f"{path}.webhook.clientConfig"
    if (client.get("url") is None) == (client.get("service") is None):
        causes.append(required(where, "exactly one of url or service is required"))
    elif client.get("url") is not None:
        causes += validate_url(client["url"], f"{where}.url")
    else:
        causes += validate_service(client["service"], f"{where}.service")
    versions = webhook.get("conversionReviewVersions") or []
    here = f"{path}.webhook.conversionReviewVersions"
    if not versions:
        causes.append(required(here))
    elif not {"v1", "v1beta1"} & set(versions):
        causes.append(invalid_value(here, versions, "must include at least one of v1, v1beta1"))
    return causes


def validate_url(url: str, path: str) -> list[Cause]:
    """The URL of a webhook: https, without credentials, query or fragment (upstream: webhook.ValidateWebhookURL)."""
    form = "; desired format: https://host[/path]"
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{form}")]
    causes: list[Cause] = []
    if parts.scheme != "https":
        told = f"'https' is the only allowed URL scheme{form}"
        causes.append(invalid_value(path, parts.scheme, told))
    if not parts.netloc:
        causes.append(invalid_value(path, parts.netloc, f"host must be specified{form}"))
    if parts.username is not None:
        causes.append(invalid_value(path, parts.username, "user information is not permitted in the URL"))
    if parts.fragment:
        causes.append(invalid_value(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        causes.append(invalid_value(path, parts.query, "query parameters are not permitted in the URL"))
    return causes


def validate_service(service: Object, path: str) -> list[Cause]:
    """The service reference of a webhook (upstream: webhook.ValidateWebhookService)."""
    causes: list[Cause] = []
    if not service.get("name"):
        causes.append(required(f"{path}.name", "service name is required"))
    if not service.get("namespace"):
        causes.append(required(f"{path}.namespace", "service namespace is required"))
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        causes.append(invalid_value(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive"))
    where = service.get("path")
    if where is not None and not where.startswith("/"):
        causes.append(invalid_value(f"{path}.path", where, "must start with a '/'"))
    return causes


def _approval(definition: Object, old: Object | None) -> list[Cause]:
    """Groups of the Kubernetes community need their API approved."""
    group = (definition.get("spec") or {}).get("group") or ""
    if not any(group == name or group.endswith(f".{name}") for name in PROTECTED):
        return []
    given = _annotation(definition)
    path = f"metadata.annotations[{APPROVAL}]"
    if old is not None and _annotation(old) == given:
        return []
    if not given:
        return [required(path, f'protected groups must have approval annotation "{APPROVAL}", {ENHANCEMENT}')]
    parts = urlsplit(given)
    if given.startswith("unapproved") or (parts.scheme and parts.netloc):
        return []
    text = (
        f'protected groups must have approval annotation "{APPROVAL}" with either a URL or a reason starting with '
        f'"unapproved", {ENHANCEMENT}'
    )
    return [invalid_value(path, given, text)]


def _annotation(definition: Object) -> str:
    return str(((definition.get("metadata") or {}).get("annotations") or {}).get(APPROVAL, ""))
