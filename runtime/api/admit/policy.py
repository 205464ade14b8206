"""ValidatingAdmissionPolicy: rules in CEL that refuse, warn or write to the audit log.

Source: k8s.io/apiserver pkg/admission/plugin/policy/validating, release 1.34.
"""

from __future__ import annotations

from time import perf_counter

import msgspec
from attrs import define, field, frozen

from dashpot.model.objects.status import REASON_CODES, StatusError
from dashpot.runtime.api.admit.authorizing import Decide
from dashpot.runtime.api.admit.base import Attributes, Object, Plugin
from dashpot.runtime.api.admit.conditions import ConditionError, Conditions, Expression, Scene
from dashpot.runtime.api.admit.hooks import shown_as
from dashpot.runtime.api.admit.invoke import HookMetrics
from dashpot.runtime.api.admit.matching import Catalog, asked, find_namespace
from dashpot.runtime.api.admit.policies import Binding, ConfigurationError, Policies, Policy, Variables
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.admit.review import request_of
from dashpot.runtime.api.admit.scene import scene_of
from dashpot.runtime.api.view import View

MESSAGE_MAX = 5 * 1024
ANNOTATION_MAX = 10 * 1024
FAILURE_KEY = "validation.policy.admission.k8s.io/validation_failure"


@frozen(eq=False)
class Validation:
    """One rule, and what is said where it does not hold."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str

    def text(self, scene: Scene) -> str:
        """The message: computed, else written, else the expression itself."""
        if self.message_expression is not None:
            try:
                value = self.message_expression.value(scene)
            except ConditionError:
                value = None
            if isinstance(value, str):
                told = value.strip()
                if told and len(told) <= MESSAGE_MAX and "\n" not in told:
                    return told
        return self.message or f"failed expression: {self.expression.text.strip()}"


@frozen(eq=False)
class Body:
    """What a policy says, compiled."""

    conditions: Conditions | None
    variables: tuple[tuple[str, Expression], ...]
    validations: tuple[Validation, ...]
    annotations: tuple[tuple[str, Expression], ...]

    @staticmethod
    def of(spec: Object) -> Body:
        """Compiles a policy's spec."""
        return Body(
            Conditions.of(spec.get("matchConditions")),
            tuple((str(v.get("name")), Expression(str(v.get("expression")))) for v in spec.get("variables") or ()),
            tuple(_validation(source) for source in spec.get("validations") or ()),
            tuple(
                (str(a.get("key")), Expression(str(a.get("valueExpression"))))
                for a in spec.get("auditAnnotations") or ()
            ),
        )


def _validation(source: Object) -> Validation:
    computed = source.get("messageExpression")
    return Validation(
        Expression(str(source.get("expression") or "")),
        str(source.get("message") or "").strip(),
        Expression(str(computed)) if computed else None,
        str(source.get("reason") or "Invalid"),
    )


@frozen
class Broken:
    """A rule that does not hold, or could not be evaluated; `index` is its place in the policy."""

    message: str
    reason: str = ""
    index: int = 0
    error: str = "no_error"
    """For metrics: compile_error or invalid_error where the rule could not be evaluated."""
    seconds: float = 0.0


@define
class _Outcome:
    """What all policies together found."""

    denied: list[tuple[str, str, Broken]] = field(factory=list)
    """Policy, binding (may be empty), what is broken."""
    annotations: dict[str, list[str]] = field(factory=dict)


class ValidatingAdmissionPolicy(Plugin):
    """Evaluates every policy that is bound and matches."""

    name = "ValidatingAdmissionPolicy"

    def __init__(
        self,
        view: View,
        policies: Policies[Body],
        decide: Decide | None,
        catalog: Catalog | None = None,
        metrics: HookMetrics | None = None,
    ) -> None:
        self._view, self._policies, self._decide, self._catalog = view, policies, decide, catalog
        self._metrics = metrics

    async def validate(self, attributes: Attributes) -> None:
        """Refuses with the first rule that is broken and denies; warns and annotates for others."""
        candidates = self._policies.candidates(attributes)
        if not candidates:
            return
        outcome = _Outcome()
        others = self._policies.equivalents(asked(attributes))
        for policy in candidates:
            target = policy.match.resource(attributes, others)
            if target is None or not await policy.match.selects(attributes, self._view):
                continue
            new, old = await shown_as(attributes, target, self._catalog)
            request = request_of(attributes, target, new, old)
            scene = scene_of(attributes, request, self._decide).showing(new, old)
            for binding in policy.bindings:
                matched = binding.match.resource(attributes, others) is not None
                if matched and await binding.match.selects(attributes, self._view):
                    await self._bound(policy, binding, attributes, scene, outcome)
        for key, values in outcome.annotations.items():
            attributes.exchange.annotations[key] = ", ".join(values)
        if outcome.denied:
            raise _refusal(attributes, *outcome.denied[0])

    async def _bound(
        self, policy: Policy[Body], binding: Binding, attributes: Attributes, scene: Scene, outcome: _Outcome
    ) -> None:
        """One policy by one binding, for each of its parameters."""
        try:
            params = self._policies.params(policy, binding, attributes)
        except ConfigurationError as error:
            if not policy.fail_open:
                broken = Broken(f"failed to configure binding: {error}")
                outcome.denied.append((policy.name, binding.name, broken))
            return
        if attributes.namespace:
            scene = scene.with_values(namespaceObject=await find_namespace(attributes.namespace, self._view))
        for one in params:
            filled = scene.with_values(params=one)
            try:
                about = (policy.name, "policy", "validate", attributes.operation)
                if policy.body.conditions is not None and not policy.body.conditions.hold(
                    filled, about, fail_open=policy.fail_open
                ):
                    continue
            except ConditionError as error:
                self._act(policy, binding, Broken(str(error), error="invalid_error"), attributes, outcome)
                continue
            filled = filled.with_values(variables=Variables(policy.body.variables, filled))
            for broken in _broken(policy, filled):
                if broken.error != "no_error" and policy.fail_open:
                    self._count(policy.name, binding.name, broken, "allow")
                else:
                    self._act(policy, binding, broken, attributes, outcome)
            self._annotate(policy, binding, filled, outcome)

    def _act(
        self, policy: Policy[Body], binding: Binding, broken: Broken, attributes: Attributes, outcome: _Outcome
    ) -> None:
        exchange = attributes.exchange
        for action in binding.actions:
            self._count(policy.name, binding.name, broken, action.lower())
            if action == "Deny":
                outcome.denied.append((policy.name, binding.name, broken))
            elif action == "Warn":
                exchange.warn(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}': "
                    f"{broken.message}"
                )
            elif action == "Audit":
                failure = {
                    "message": broken.message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": broken.index,
                    "validationActions": list(binding.actions),
                }
                exchange.annotations.setdefault(FAILURE_KEY, msgspec.json.encode([failure]).decode())

    def _count(self, policy: str, binding: str, broken: Broken, action: str) -> None:
        if self._metrics is not None:
            self._metrics.policy(policy, binding, broken.error, action, broken.seconds)

    @staticmethod
    def _annotate(policy: Policy[Body], binding: Binding, scene: Scene, outcome: _Outcome) -> None:
        for key, expression in policy.body.annotations:
            try:
                value = expression.value(scene)
            except ConditionError as error:
                if not policy.fail_open:
                    outcome.denied.append((policy.name, binding.name, Broken(str(error))))
                continue
            if value is not None and not isinstance(value, str):
                text = (
                    f"valueExpression '{expression.text}' resulted in unsupported return type: "
                    f"{type(value).__name__}. Return type must be either string or null."
                )
                outcome.denied.append((policy.name, binding.name, Broken(text)))
                continue
            told = (value or "").strip()[:ANNOTATION_MAX]
            values = outcome.annotations.setdefault(f"{policy.name}/{key}", []) if told else []
            if told and told not in values:
                values.append(told)


def _broken(policy: Policy[Body], scene: Scene) -> list[Broken]:
    """The rules that do not hold, and those that could not be evaluated."""
    found = []
    for index, validation in enumerate(policy.body.validations):
        began = perf_counter()
        try:
            if validation.expression.value(scene) is not True:
                seconds = perf_counter() - began
                found.append(Broken(validation.text(scene), validation.reason, index, seconds=seconds))
        except ConditionError as error:
            kind = "compile_error" if validation.expression.broken else "invalid_error"
            found.append(Broken(str(error), "", index, kind, perf_counter() - began))
    return found


def _refusal(attributes: Attributes, policy: str, binding: str, broken: Broken) -> StatusError:
    with_binding = f" with binding '{binding}'" if binding else ""
    message = f"ValidatingAdmissionPolicy '{policy}'{with_binding} denied request: {broken.message}"
    told = refuse(attributes, message)
    reason = broken.reason or "Invalid"
    code = REASON_CODES.get(reason, 422)
    return StatusError(reason, told.message, code=code, details={**told.details, "causes": [{"message": message}]})
