"""CEL rules of a schema: compiled with their estimated cost, then run over an object under one budget.

Sources: k8s.io/apiextensions-apiserver pkg/apiserver/schema/cel/{compilation,validation}.go and
pkg/apis/apiextensions/validation/cel_validation.go, release 1.34; KEP-2876.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from attrs import define, field, frozen

from dashpot.model.objects.status import Cause, duplicate, forbidden_field, invalid_value, not_supported, required
from dashpot.runtime.api.cel import (
    EXPRESSION_LIMIT,
    RUNTIME_LIMIT,
    TOTAL_LIMIT,
    BudgetExceeded,
    CelError,
    Environment,
    Program,
    excess,
)
from dashpot.runtime.api.cel.cost import occurrences
from dashpot.runtime.api.cel.values import NOTHING, Maybe
from dashpot.runtime.api.crd.validate import MISSING, correlate
from dashpot.runtime.api.tally import tally

Object = dict[str, Any]
REASONS = ("FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden", "FieldValueDuplicate")
KEY = "x-kubernetes-validations"
MESSAGE_LIMIT = 5 * 1024
_EVALUATED = tally("apiserver_cel_evaluation_duration_seconds").hist()


_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\['((?:[^'\\]|\\.)*)'\]")


def leads_somewhere(schema: Object, where: str) -> bool:
    """Whether a path (`.spec.x`, `.map['key']`) leads to a field of the schema; elements of lists have none (upstream:
    apiextensions schema/cel, ValidFieldPath)."""
    at, here = 0, schema
    while at < len(where):
        step = _STEP.match(where, at)
        if step is None:
            return False
        name = step[1] if step[1] is not None else re.sub(r"\\(.)", r"\1", step[2])
        known = (here.get("properties") or {}).get(name)
        if known is None:
            known = here.get("additionalProperties")
        if not isinstance(known, dict):
            return False
        here, at = known, step.end()
    return True


@frozen(eq=False)
class Rule:
    """One rule, compiled. `transition`: it looks at the old value, and is skipped where there is none."""

    source: str
    program: Program
    message: str
    message_program: Program | None
    reason: str
    suffix: str
    """What `fieldPath` adds to the path."""
    kind: str
    """The type of the value: told instead of the value."""
    transition: bool
    optional_old: bool

    def cause(self, path: str, value: Any, message: str) -> Cause:
        """The cause of a rule that does not hold."""
        where = path + self.suffix
        where = where.removeprefix(".") or "<nil>"
        if self.reason == "FieldValueForbidden":
            return forbidden_field(where, message)
        if self.reason == "FieldValueRequired":
            return required(where, message)
        if self.reason == "FieldValueDuplicate":
            return duplicate(where, value)
        return invalid_value(where, self.kind, message)


@define(eq=False)
class Rules:
    """The rules of a schema and of what is below it; parts without rules are left out."""

    schema: Object
    rules: tuple[Rule, ...] = ()
    properties: dict[str, Rules] = field(factory=dict)
    extra: Rules | None = None
    items: Rules | None = None

    def check(self, value: Any, old: Any, path: str, causes: list[Cause], budget: list[int]) -> None:
        """Runs all rules; `old` is MISSING on create. BudgetExceeded ends the run."""
        if value is None:
            return
        unchanged = old is not MISSING and type(old) is type(value) and old == value
        for rule in self.rules:
            if unchanged and not rule.transition:
                continue  # What was accepted once may stay (KEP-4008).
            self.run(rule, value, old, path, causes, budget)
        if type(value) is dict:
            was = old if type(old) is dict else {}
            for name, child in self.properties.items():
                if name in value:
                    child.check(value[name], was.get(name, MISSING), f"{path}.{name}" if path else name, causes, budget)
            if self.extra is not None:
                for name, item in value.items():
                    self.extra.check(item, was.get(name, MISSING), f"{path}[{name}]", causes, budget)
        elif type(value) is list and self.items is not None:
            before = correlate(self.schema, value, old)
            for at, item in enumerate(value):
                self.items.check(item, before[at], f"{path}[{at}]", causes, budget)

    def run(self, rule: Rule, value: Any, old: Any, path: str, causes: list[Cause], budget: list[int]) -> None:
        """Runs one rule."""
        bindings = {"self": value}
        if rule.transition:
            if rule.optional_old:
                bindings["oldSelf"] = NOTHING if old is MISSING else Maybe(True, old)
            elif old is MISSING or old is None:
                return
            else:
                bindings["oldSelf"] = old
        try:
            holds = rule.program.evaluate(bindings, budget)
        except BudgetExceeded:
            raise
        except CelError as error:
            causes.append(invalid_value(path or "<nil>", rule.kind, _failed(str(error), rule)))
            return
        if holds is True:
            return
        causes.append(rule.cause(path, value, _message(rule, bindings, budget)))

    def validate(self, value: Any, old: Any) -> list[Cause]:
        """All causes, within one budget."""
        causes: list[Cause] = []
        began = perf_counter()
        try:
            self.check(value, old, "", causes, [RUNTIME_LIMIT])
        except BudgetExceeded:
            text = "validation failed due to running out of cost budget, no further validation rules will be run"
            causes.append(invalid_value("<nil>", self.schema.get("type", "object"), text))
        _EVALUATED.observe(perf_counter() - began)
        return causes


def _failed(error: str, rule: Rule) -> str:
    told = rule.message or rule.source
    if error.startswith("no such overload"):
        text = "call arguments did not match a supported operator, function or macro signature for rule"
        return f"'{error}': {text}: {told}"
    return f"{error} evaluating rule: {told}"


def _message(rule: Rule, bindings: Object, budget: list[int]) -> str:
    """What to tell of a rule that does not hold: its messageExpression if that gives a line, else its message."""
    if rule.message_program is not None:
        try:
            told = rule.message_program.evaluate(bindings, budget)
        except BudgetExceeded:
            raise
        except CelError:
            told = None
        if isinstance(told, str) and told.strip() and "\n" not in told and len(told) <= MESSAGE_LIMIT:
            return told.strip()
    return rule.message or f"failed rule: {rule.source}"


def _often(times: int | None, most: int | None) -> int | None:
    return None if times is None or most is None else times * most


@define(eq=False)
class _Builder:
    """Compiles the rules of a schema and gathers what is wrong with them."""

    causes: list[Cause] = field(factory=list)
    total: int = 0
    costs: list[tuple[int, str]] = field(factory=list)

    def build(
        self, schema: Object, path: str, times: int | None, uncorrelated: str = "", *, root: bool = False
    ) -> Rules | None:
        """The rules of a schema that occurs up to `times` times in an object (None: as often as fits)."""
        made = Rules(schema)
        rows = schema.get(KEY) or ()
        if rows:
            count = occurrences(schema) if times is None else times
            made.rules = tuple(self.compile(schema, rows, f"{path}.{KEY}", count, uncorrelated, root=root))
        for name, child in (schema.get("properties") or {}).items():
            found = self.build(child, f"{path}.properties[{name}]", times, uncorrelated)
            if found is not None:
                made.properties[name] = found
        extra, items = schema.get("additionalProperties"), schema.get("items")
        if isinstance(extra, dict):
            often = _often(times, schema.get("maxProperties"))
            made.extra = self.build(extra, f"{path}.additionalProperties", often, uncorrelated)
        if isinstance(items, dict):
            here = uncorrelated if schema.get("x-kubernetes-list-type") == "map" else path
            made.items = self.build(items, f"{path}.items", _often(times, schema.get("maxItems")), here)
        return made if made.rules or made.properties or made.extra or made.items else None

    def compile(
        self, schema: Object, rows: Sequence[Object], path: str, times: int, uncorrelated: str, *, root: bool
    ) -> list[Rule]:
        """The rules at one place of the schema."""
        typed = {**schema, "x-kubernetes-embedded-resource": True} if root else schema
        environments = {
            optional: Environment({"self": typed, "oldSelf": {**typed, "x-dashpot-optional": optional}})
            for optional in {bool(row.get("optionalOldSelf")) for row in rows}
        }
        made: list[Rule] = []
        for at, row in enumerate(rows):
            here = f"{path}[{at}]"
            rule = self.rule(environments[bool(row.get("optionalOldSelf"))], schema, row, here, times)
            if rule is not None and rule.transition and uncorrelated:
                text = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
                self.causes.append(invalid_value(f"{here}.rule", row.get("rule", ""), text))
            if rule is not None:
                made.append(rule)  # Also one that costs too much: where it was accepted, its budget ends it.
        return made

    def rule(self, environment: Environment, schema: Object, row: Object, path: str, times: int) -> Rule | None:
        """One rule; None where it is refused."""
        source = (row.get("rule") or "").strip()
        if not source:
            self.causes.append(required(f"{path}.rule", "rule is not specified"))
            return None
        self.texts(row, path)
        self.place(schema, row.get("fieldPath"), f"{path}.fieldPath")
        try:
            program = environment.compile(row["rule"], ("bool",))
        except CelError as error:
            text = "cel expression must evaluate to a bool" if "must evaluate" in str(error) else str(error)
            self.causes.append(invalid_value(f"{path}.rule", row["rule"], text))
            return None
        message = self.message(environment, row, path, times)
        self.charge(program, f"{path}.rule", "estimated rule cost", times)
        transition = "oldSelf" in program.uses
        if row.get("optionalOldSelf") and not transition:
            text = "may not be set if oldSelf is not used in rule"
            self.causes.append(invalid_value(f"{path}.optionalOldSelf", True, text))
        return Rule(
            source=source,
            program=program,
            message=(row.get("message") or "").strip(),
            message_program=message,
            reason=row.get("reason") or "FieldValueInvalid",
            suffix=row.get("fieldPath") or "",
            kind=schema.get("type") or "",
            transition=transition,
            optional_old=bool(row.get("optionalOldSelf")),
        )

    def texts(self, row: Object, path: str) -> None:
        """What is said about the message, the reason and the field path of a rule."""
        message, reason, where = row.get("message"), row.get("reason"), row.get("fieldPath")
        if message is not None and not message.strip():
            text = "message must be non-empty if specified"
            self.causes.append(invalid_value(f"{path}.message", message, text))
        if message and "\n" in message.strip():
            self.causes.append(invalid_value(f"{path}.message", message, "message must not contain line breaks"))
        if not (message or "").strip() and "\n" in row["rule"].strip():
            text = "message must be specified if rule contains line breaks"
            self.causes.append(required(f"{path}.message", text))
        if reason and reason not in REASONS:
            self.causes.append(not_supported(f"{path}.reason", reason, list(REASONS)))
        if where is not None and not where.strip():
            text = "fieldPath must be non-empty if specified"
            self.causes.append(invalid_value(f"{path}.fieldPath", where, text))

    def place(self, schema: Object, where: str | None, path: str) -> None:
        """Whether a field path leads to a field of the schema."""
        if where and where.strip() and not leads_somewhere(schema, where):
            text = "fieldPath must be a valid path: does not refer to a valid field"
            self.causes.append(invalid_value(path, where, text))

    def message(self, environment: Environment, row: Object, path: str, times: int) -> Program | None:
        """The messageExpression, if there is one."""
        text = row.get("messageExpression")
        if text is None:
            return None
        here = f"{path}.messageExpression"
        if not text.strip():
            self.causes.append(required(here, "messageExpression must be non-empty if specified"))
            return None
        try:
            program = environment.compile(text, ("string",))
        except CelError as error:
            told = "messageExpression must evaluate to a string" if "must evaluate" in str(error) else str(error)
            self.causes.append(invalid_value(here, text, told))
            return None
        self.charge(program, here, "estimated messageExpression cost", times)
        return program

    def charge(self, program: Program, path: str, name: str, times: int) -> None:
        """Counts the cost of an expression; refuses one that costs too much."""
        cost = program.cost * times
        self.total += cost
        self.costs.append((cost, path))
        if cost > EXPRESSION_LIMIT:
            self.causes.append(forbidden_field(path, excess(name, cost, EXPRESSION_LIMIT)))


def compile_rules(schema: Object, path: str) -> tuple[Rules | None, list[Cause]]:
    """The rules of a whole schema, and what is wrong with them; `path` is that of the schema in its definition."""
    builder = _Builder()
    rules = builder.build(schema, path, 1, root=True)
    if builder.total > TOTAL_LIMIT:
        text = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        for cost, where in sorted(builder.costs, reverse=True)[:4]:
            if cost > TOTAL_LIMIT // 100:
                told = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
                builder.causes.append(forbidden_field(where, told))
        builder.causes.append(forbidden_field(path, excess(text, builder.total, TOTAL_LIMIT)))
    return rules, builder.causes
