"""The forms of rules: each makes a check from an entry of rules.json.

An entry has `id`, `form`, `at` (where it is asked) and, by its form, `field` (what it looks at, below `at`), `message`,
`reason`, `when` (a CEL condition over `self`, the value at `at`,
and `oldSelf`), `on` (`create`: only then).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dashpot.model.objects.metadata import validate_labels, validate_selector
from dashpot.model.objects.quantity import QuantityError, parse
from dashpot.model.objects.status import Cause, duplicate, forbidden_field, invalid_value, not_supported, required
from dashpot.runtime.api import cel
from dashpot.runtime.api.crd.validate import frozen
from dashpot.runtime.api.rules.place import Trail, find, same, spelled
from dashpot.runtime.api.rules.texts import TEXTS
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
VARIABLES = {"self": "dyn", "oldSelf": "dyn", "object": "dyn", "oldObject": "dyn", "scope": "dyn"}
Form = Callable[[Object], Check]


def _reader(field: str) -> Callable[[Any], Any]:
    """Reads a field of a value: a name, a path, or the value itself."""
    if not field:
        return lambda value: value
    if "." in field:
        return lambda value: find(value, field)
    return lambda value: value.get(field) if type(value) is dict else None


def cause(reason: str, path: str, value: Any, message: str) -> Cause:
    """A cause by its reason."""
    match reason:
        case "FieldValueForbidden":
            return forbidden_field(path, message)
        case "FieldValueRequired":
            return required(path, message)
        case "FieldValueDuplicate":
            return duplicate(path, value)
        case "FieldValueTooLong":
            return Cause(path, f"Too long: {message}", reason)
        case "FieldValueTooMany":
            return Cause(path, f"Too many: {message}", reason)
    return invalid_value(path, value, message)


def _bindings(value: Any, old: Any, scene: Scene) -> Object:
    return {"self": value, "oldSelf": old, "object": scene.object, "oldObject": scene.old, "scope": scene.spec}


def _true(program: cel.Program, value: Any, old: Any, scene: Scene) -> bool:
    """Whether a condition holds; one that cannot be told does not."""
    try:
        return program.evaluate(_bindings(value, old, scene)) is True
    except cel.CelError:
        return False


def conditional(entry: Object, check: Check) -> Check:
    """A check that is only asked when the entry's condition holds, or on create alone."""
    asked = check
    if entry.get("on") == "create":

        def create(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
            if scene.old is None:
                check(value, old, trail, scene)

        asked = create
    if "when" not in entry:
        return asked
    program = cel.compile(entry["when"], VARIABLES, ("bool",))

    def when(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if _true(program, value, old, scene):
            asked(value, old, trail, scene)

    return when


def _required(entry: Object) -> Check:
    """`field` is there and not empty."""
    fields = entry["field"] if isinstance(entry["field"], list) else [entry["field"]]
    rows = [(field, _reader(field)) for field in fields]
    message = entry.get("message", "")

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for field, read in rows:
            found = read(value)
            if found is None or found == "" or found == [] or found == {}:
                scene.causes.append(required(spelled(trail, field), message))

    return check


def _enum(entry: Object) -> Check:
    """`field` is one of `values`."""
    field, values = entry.get("field", ""), entry["values"]
    read, known = _reader(field), frozenset(entry["values"])

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        found = read(value)
        if found is not None and (type(found) is not str or found not in known):
            scene.causes.append(not_supported(spelled(trail, field), found, values))

    return check


def _range(entry: Object) -> Check:
    """`field`, where it is a number, lies between `min` and `max`."""
    fields = entry["field"] if isinstance(entry.get("field"), list) else [entry.get("field", "")]
    rows = [(field, _reader(field)) for field in fields]
    low, high = entry.get("min", float("-inf")), entry.get("max", float("inf"))
    message, reason = entry["message"], entry.get("reason", "")

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for field, read in rows:
            found = read(value)
            if type(found) is int and not low <= found <= high:
                scene.causes.append(cause(reason, spelled(trail, field), found, message))

    return check


def _format(entry: Object) -> Check:
    """`field`, where it is a text (or a list of texts), is of the named kind; an empty one only counts with `empty`."""
    fields = entry["field"] if isinstance(entry.get("field"), list) else [entry.get("field", "")]
    rows = [(field, _reader(field)) for field in fields]
    rule, empty = TEXTS[entry["format"]], entry.get("empty", False)

    def one(found: Any, trail: Trail, field: str, scene: Scene) -> None:
        if type(found) is str:
            for text in rule(found):
                scene.causes.append(invalid_value(spelled(trail, field), found, text))

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for field, read in rows:
            found = read(value)
            if type(found) is list:
                for at, item in enumerate(found):
                    one(item, trail, f"{field}[{at}]", scene)
            elif found or (empty and found == ""):
                one(found, trail, field, scene)

    return check


def _keys(entry: Object) -> Check:
    """The keys of the map `field` are of the named kind; told with the key in brackets."""
    field = entry.get("field", "")
    read, rule = _reader(field), TEXTS[entry["format"]]

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for key in read(value) or ():
            for text in rule(key):
                scene.causes.append(invalid_value(spelled(trail, f"{field}[{key}]"), key, text))

    return check


def _unique(entry: Object) -> Check:
    """The items of the list `field` differ in `by`: a name, or several; without it as a whole."""
    field, by = entry.get("field", ""), entry.get("by")
    read = _reader(field)
    told = entry.get("tell", by if isinstance(by, str) else "")

    def key(item: Any) -> Any:
        if by is None:
            return frozen(item)
        if isinstance(by, str):
            return item.get(by) if type(item) is dict else None
        return tuple(item.get(name) for name in by) if type(item) is dict else None

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        items = read(value)
        if type(items) is not list or len(items) < 2:
            return
        seen: set[Any] = set()
        for at, item in enumerate(items):
            found = key(item)
            if found is None or found == "":
                continue
            if found in seen:
                shown = item.get(told) if told else item
                where = f"{field}[{at}]{'.' + told if told else ''}"
                scene.causes.append(duplicate(spelled(trail, where), shown))
            seen.add(found)

    return check


def _immutable(entry: Object) -> Check:
    """`field` is what it was. `once`: it may be set where it was not; `except`: names below that may change."""
    fields = entry["field"] if isinstance(entry.get("field"), list) else [entry.get("field", "")]
    message, reason = entry.get("message", "field is immutable"), entry.get("reason", "FieldValueInvalid")
    once, free = entry.get("once", False), frozenset(entry.get("except", ()))
    rows = [(field, _reader(field)) for field in fields]

    def fixed(value: Any) -> Any:
        if free and type(value) is dict:
            return {name: item for name, item in value.items() if name not in free}
        return value

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        if scene.old is None:
            return
        for field, read in rows:
            new, was = read(value), read(old)
            if new == was or (once and (was is None or was == "")) or same(fixed(new), fixed(was)):
                continue
            scene.causes.append(cause(reason, spelled(trail, field), new, message))

    return check


def _absent(entry: Object) -> Check:
    """`field` is not set (with `when`: in that case)."""
    fields = entry["field"] if isinstance(entry["field"], list) else [entry["field"]]
    rows = [(field, _reader(field)) for field in fields]
    message, reason = entry["message"], entry.get("reason", "FieldValueForbidden")

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        for field, read in rows:
            found = read(value)
            if found is not None and found != "" and found != [] and found != {}:
                scene.causes.append(cause(reason, spelled(trail, field), found, message))

    return check


def _one_of(entry: Object) -> Check:
    """Of `fields` exactly one is set (`optional`: at most one)."""
    fields: list[str] = entry["fields"]
    names = frozenset(fields)
    none, many = entry["message"], entry.get("many", "may not specify more than 1 type")
    told, optional = entry.get("field", ""), entry.get("optional", False)
    each = entry.get("each", True)

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        found = names & value.keys()
        if len(found) == 1:
            return
        given = [name for name in fields if name in found and value[name] is not None]
        if not given and not optional:
            scene.causes.append(required(spelled(trail, told), none))
        for name in given[1:]:
            if each:
                scene.causes.append(forbidden_field(spelled(trail, name), many))
            else:
                scene.causes.append(invalid_value(spelled(trail, told), value, many))

    return check


def _cel(entry: Object) -> Check:
    """`rule` holds; `self` is the value at `at`, `scope` the pod spec or other object around it.

    The value of `field` is shown; `told` is the path that is told, where that is another one.
    """
    program = cel.compile(entry["rule"], VARIABLES, ("bool",))
    said = cel.compile(entry["tell"], VARIABLES, ("string",)) if "tell" in entry else None
    field, message, reason = entry.get("field", ""), entry.get("message", ""), entry.get("reason", "")
    read = _reader(field)
    path = str(entry.get("told", field))

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        try:
            if program.evaluate(_bindings(value, old, scene)) is True:
                return
            text = message if said is None else str(said.evaluate(_bindings(value, old, scene)))
        except cel.BudgetExceeded as error:
            scene.causes.append(invalid_value(spelled(trail, path), "", str(error)))
            return
        except cel.CelError:
            return  # A value of another shape than the rule is about.
        scene.causes.append(cause(reason, spelled(trail, path), read(value), text))

    return check


def _wholly(judge: Callable[[Any, str], Iterable[Cause]]) -> Callable[[Object], Check]:
    """`field`, if it is there, is judged as a whole: a LabelSelector, a map of labels."""

    def form(entry: Object) -> Check:
        field = entry.get("field", "")
        read = _reader(field)

        def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
            found = read(value)
            if found:
                scene.causes.extend(judge(found, spelled(trail, field)))

        return check

    return form


def _quantity(entry: Object) -> Check:
    """`field` is a quantity of at least 0; of a map, each value."""
    field = entry.get("field", "")
    read = _reader(field)
    positive = entry.get("positive", False)

    def one(found: Any, trail: Trail, where: str, scene: Scene) -> None:
        try:
            number = parse(str(found))
        except QuantityError as error:
            scene.causes.append(invalid_value(spelled(trail, where), found, str(error)))
            return
        if number.nano < 0 or (positive and not number.nano):
            text = "must be greater than zero" if positive else "must be greater than or equal to 0"
            scene.causes.append(invalid_value(spelled(trail, where), str(found), text))

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        found = read(value)
        if type(found) is dict:
            for name, item in found.items():
                one(item, trail, f"{field}[{name}]", scene)
        elif found is not None:
            one(found, trail, field, scene)

    return check


FORMS: dict[str, Form] = {
    "required": _required,
    "enum": _enum,
    "range": _range,
    "format": _format,
    "keys": _keys,
    "unique": _unique,
    "immutable": _immutable,
    "absent": _absent,
    "oneOf": _one_of,
    "cel": _cel,
    "selector": _wholly(validate_selector),
    "labels": _wholly(validate_labels),
    "quantity": _quantity,
}
