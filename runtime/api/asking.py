"""What a list or watch asks for: its query, checked as Kubernetes checks it.

Source: k8s.io/apimachinery pkg/apis/meta/internalversion/validation, release 1.34.
"""

from __future__ import annotations

from attrs import frozen

from dashpot.model.objects.fieldselector import escape
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import Cause, StatusError, bad_request, forbidden_field, invalid, not_supported
from dashpot.runtime.api.exchange import Exchange, Request
from dashpot.runtime.api.selection import Selection, select

EXACT, NOT_OLDER = "Exact", "NotOlderThan"
_MATCH = "resourceVersionMatch"
_INITIAL = "sendInitialEvents"


def version_number(text: str) -> int:
    """A resourceVersion as a number; StatusError 400 for what is none (upstream: Go's ParseUint)."""
    if text.isascii() and text.isdigit():
        number = int(text) if len(text) <= 20 else 1 << 64
        if number < 1 << 64:
            return number
        why = f'strconv.ParseUint: parsing "{text[:64]}": value out of range'
    else:
        why = f'strconv.ParseUint: parsing "{text[:64]}": invalid syntax'
    raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text[:64]}": {why}')


@frozen
class Asked:
    """The options of a list or watch. `initial` is sendInitialEvents: None where it was not said."""

    selection: Selection
    name: str
    version: str
    match: str
    limit: int = 0
    token: str = ""
    timeout_s: int = 0
    bookmarks: bool = False
    initial: bool | None = None

    @property
    def number(self) -> int:
        """The resourceVersion as a number; 0 for none."""
        return version_number(self.version) if self.version else 0


def _whole(request: Request, name: str) -> int:
    text = request.get(name)
    if not text:
        return 0
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise bad_request(f'invalid {name}: strconv.ParseInt: parsing "{text[:64]}": invalid syntax')
    return max(0, int(text))


def _refuse(causes: list[Cause]) -> None:
    if causes:
        raise invalid("meta.k8s.io", "ListOptions", "", causes)


def read(exchange: Exchange, resource: Resource) -> Asked:
    """The options of a request, not yet checked against each other; StatusError 400 for what cannot be read."""
    request = exchange.request
    if not request.query and not exchange.info.name:
        return _ALL
    selection = select(resource, request.get("labelSelector"), request.get("fieldSelector"))
    name = exchange.info.name
    if name:
        also = f",{selection.fields}" if selection.fields else ""
        selection = select(resource, selection.labels, f"metadata.name={escape(name)}{also}")
    initial = request.flag(_INITIAL) if request.get(_INITIAL) else None
    return Asked(
        selection,
        name,
        request.get("resourceVersion"),
        request.get(_MATCH),
        _whole(request, "limit"),
        request.get("continue"),
        _whole(request, "timeoutSeconds"),
        request.flag("allowWatchBookmarks"),
        initial,
    )


_ALL = Asked(Selection("", "", None), "", "", "")


def check_list(asked: Asked) -> None:
    """StatusError 422 for options of a list that contradict each other."""
    causes: list[Cause] = []
    if asked.match:
        if not asked.version:
            causes.append(
                forbidden_field(_MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if asked.token:
            causes.append(forbidden_field(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
        if asked.match not in (EXACT, NOT_OLDER):
            causes.append(not_supported(_MATCH, asked.match, [EXACT, NOT_OLDER, ""]))
        if asked.match == EXACT and asked.version == "0":
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            causes.append(forbidden_field(_MATCH, why))
    if asked.initial is not None:
        causes.append(forbidden_field(_INITIAL, "sendInitialEvents is forbidden for list"))
    _refuse(causes)
    if asked.token and asked.version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")


def check_watch(asked: Asked) -> None:
    """StatusError 422 for options of a watch that contradict each other."""
    causes: list[Cause] = []
    if asked.initial is not None and asked.match != NOT_OLDER:
        why = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER}"
        causes.append(forbidden_field(_MATCH, why))
    if asked.match:
        if asked.initial is None:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            causes.append(forbidden_field(_MATCH, why))
        if asked.match != NOT_OLDER:
            causes.append(not_supported(_MATCH, asked.match, [NOT_OLDER]))
        if asked.token:
            causes.append(forbidden_field(_MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    _refuse(causes)


def version_invalid(resource: Resource, error: StatusError) -> StatusError:
    """422: a watch from a resourceVersion that is no number (upstream answers watches so, and lists with 400)."""
    told = error.message.partition("resourceVersion: ")[2]
    return invalid(resource.group, resource.plural, "", [Cause("resourceVersion", told)])
