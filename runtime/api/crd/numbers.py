"""Numbers of custom resources, as Go's JSON decoder reads them: whole where the text can be, else a double.

Source: sigs.k8s.io/json (integers preserved) and k8s.io/kube-openapi pkg/validation/validate/type.go.
"""

from __future__ import annotations

from typing import Any, Final

from dashpot.model.objects.status import bad_request

EXACT: Final = 2.0**53 - 1
"""Up to here a double says which integer it is: beyond, it is none to a schema."""
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def whole(number: float) -> bool:
    """Whether a double counts as an integer."""
    return -EXACT <= number <= EXACT and number.is_integer()


def normalise(value: Any) -> Any:
    """The value with `1.0` and `1e0` as 1, and integers beyond 64 bits as doubles; maps and lists change in place.

    StatusError 400 for a number that no double holds.
    """
    kind = type(value)
    if kind is dict:
        for name, item in value.items():
            inner = type(item)
            if inner is dict or inner is list:
                normalise(item)
            elif inner is float or inner is int:
                value[name] = _number(item)
    elif kind is list:
        for at, item in enumerate(value):
            inner = type(item)
            if inner is dict or inner is list:
                normalise(item)
            elif inner is float or inner is int:
                value[at] = _number(item)
    elif kind is float or kind is int:
        return _number(value)
    return value


def _number(number: Any) -> Any:
    if type(number) is float:
        return int(number) if whole(number) else number
    if LOWEST <= number <= HIGHEST:
        return number
    try:
        return float(number)
    except OverflowError:
        raise bad_request("json parse error: number out of range") from None
