"""MutatingAdmissionPolicy: changes written in CEL, as a configuration that is merged or as a JSON patch.

Source: k8s.io/apiserver pkg/admission/plugin/policy/mutating, release 1.36 (KEP-3962).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

import msgspec
from attrs import define, field, frozen

from dashpot.model.objects import jsonpatch
from dashpot.model.objects.apply import merge
from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.model.objects.structure import LIST, MAP, Structure
from dashpot.runtime.api.admit.authorizing import Decide
from dashpot.runtime.api.admit.base import DELETE, Attributes, Object, Plugin
from dashpot.runtime.api.admit.conditions import ConditionError, Conditions, Expression, Scene
from dashpot.runtime.api.admit.hooks import shown_as
from dashpot.runtime.api.admit.matching import Catalog, asked, find_namespace
from dashpot.runtime.api.admit.messages import MessageError, as_maps
from dashpot.runtime.api.admit.mutating import Defaulter
from dashpot.runtime.api.admit.policies import Binding, ConfigurationError, Policies, Policy, Variables
from dashpot.runtime.api.admit.refusal import refuse
from dashpot.runtime.api.admit.review import ENCODER, request_of
from dashpot.runtime.api.admit.scene import scene_of
from dashpot.runtime.api.tally import tally
from dashpot.runtime.api.view import View

Structures = Callable[[Resource], Structure]
"""How the objects of a resource are merged."""

APPLY, PATCH = "ApplyConfiguration", "JSONPatch"
FIXED = ("apiVersion", "kind")
FIXED_META = ("name", "namespace", "uid", "generateName")


class MutationError(Exception):
    """A change that cannot be made; the text is for the user."""


@frozen(eq=False)
class Mutation:
    """One change: its kind and its expression."""

    kind: str
    expression: Expression | None
    error: str = ""

    @staticmethod
    def of(source: Object) -> Mutation:
        """Compiles a mutation; one that is not written as it must be fails whenever it is due."""
        kind = str(source.get("patchType") or "")
        part = source.get("applyConfiguration" if kind == APPLY else "jsonPatch") or {}
        try:
            return Mutation(kind, Expression(as_maps(str(part.get("expression") or ""))))
        except MessageError as error:
            return Mutation(kind, None, f"compilation error: compilation failed: {error}")

    def value(self, scene: Scene) -> Any:
        """What the expression makes, as JSON of its own: parts of it may be shared with parameters."""
        if self.expression is None:
            raise MutationError(self.error)
        try:
            return msgspec.json.decode(ENCODER.encode(self.expression.value(scene)))
        except (ConditionError, TypeError) as error:
            raise MutationError(str(error)) from error


@frozen(eq=False)
class MutatingBody:
    """What a policy says, compiled."""

    conditions: Conditions | None
    variables: tuple[tuple[str, Expression], ...]
    mutations: tuple[Mutation, ...]
    if_needed: bool

    @staticmethod
    def of(spec: Object) -> MutatingBody:
        """Compiles a policy's spec."""
        return MutatingBody(
            Conditions.of(spec.get("matchConditions")),
            tuple((str(v.get("name")), Expression(str(v.get("expression")))) for v in spec.get("variables") or ()),
            tuple(Mutation.of(source) for source in spec.get("mutations") or ()),
            spec.get("reinvocationPolicy") == "IfNeeded",
        )


Key = tuple[str, str, str]
"""Policy, binding, parameters."""


@define
class _Memory:
    """What one request's policies have to know of each other, over both rounds."""

    called: set[Key] = field(factory=set)
    due: set[Key] = field(factory=set)
    output: bytes = b""

    def require_called(self) -> None:
        """Something changed: all that may look again must."""
        self.due |= self.called
        self.called = set()


_CHECKS = tally("apiserver_mutating_admission_policy_check_total")
_TIMES = tally("apiserver_mutating_admission_policy_check_duration_seconds")


class MutatingAdmissionPolicy(Plugin):
    """Applies every policy that is bound and matches, by name; each sees what those before did."""

    name = "MutatingAdmissionPolicy"

    def __init__(
        self,
        view: View,
        policies: Policies[MutatingBody],
        decide: Decide | None,
        structures: Structures,
        catalog: Catalog | None = None,
        defaulter: Defaulter | None = None,
    ) -> None:
        self._view, self._policies, self._decide = view, policies, decide
        self._structures, self._catalog, self._defaulter = structures, catalog, defaulter

    def handles(self, operation: str, resource: Resource, subresource: str) -> bool:
        """Writes that leave an object behind."""
        return operation != DELETE

    async def mutate(self, attributes: Attributes) -> None:
        """Changes the object; refuses if a policy that must hold cannot be applied."""
        candidates = self._policies.candidates(attributes)
        if not candidates or attributes.object is None:
            return
        memory: _Memory = attributes.notes.setdefault(self.name, _Memory())
        if attributes.round and memory.output != ENCODER.encode(attributes.object):
            memory.require_called()
        others = self._policies.equivalents(asked(attributes))
        for policy in candidates:
            target = policy.match.resource(attributes, others)
            if target is None or not await policy.match.selects(attributes, self._view):
                continue
            for binding in policy.bindings:
                matched = binding.match.resource(attributes, others) is not None
                if matched and await binding.match.selects(attributes, self._view):
                    await self._bound(policy, binding, target, attributes, memory)
        memory.output = ENCODER.encode(attributes.object)

    async def _bound(
        self,
        policy: Policy[MutatingBody],
        binding: Binding,
        target: Resource,
        attributes: Attributes,
        memory: _Memory,
    ) -> None:
        """One policy by one binding, for each of its parameters."""
        began, error_type = perf_counter(), "no_error"
        try:
            for one in self._policies.params(policy, binding, attributes):
                await self._one(policy, binding, one, target, attributes, memory)
        except (ConfigurationError, ConditionError, MutationError) as error:
            error_type = "invalid_error"
            if not policy.fail_open:
                raise _refusal(attributes, policy.name, binding.name, str(error)) from error
        finally:
            about = (policy.name, binding.name, error_type)
            _CHECKS.cell(*about).value += 1
            _TIMES.hist(*about).observe(perf_counter() - began)

    async def _one(
        self,
        policy: Policy[MutatingBody],
        binding: Binding,
        params: Object | None,
        target: Resource,
        attributes: Attributes,
        memory: _Memory,
    ) -> None:
        key = (policy.name, binding.name, _identity(params))
        if attributes.round and key not in memory.due:
            return
        new, old = await shown_as(attributes, target, self._catalog)
        if new is None:
            return
        scene = scene_of(attributes, request_of(attributes, target, new, old), self._decide)
        scene = scene.showing(new, old).with_values(params=params)
        if attributes.namespace:
            scene = scene.with_values(namespaceObject=await find_namespace(attributes.namespace, self._view))
        conditions = policy.body.conditions
        about = (policy.name, "policy", "admit", attributes.operation)
        if conditions is not None and not conditions.hold(scene, about, fail_open=policy.fail_open):
            return
        memory.due.discard(key)
        if await self._change(policy.body, scene, new, old, target, attributes):
            memory.require_called()
            attributes.again = not attributes.round
        if policy.body.if_needed:
            memory.called.add(key)

    async def _change(
        self,
        body: MutatingBody,
        scene: Scene,
        new: Object,
        old: Object | None,
        target: Resource,
        attributes: Attributes,
    ) -> bool:
        """Whether the mutations of a policy changed the object."""
        before = ENCODER.encode(new)
        changed = new
        for mutation in body.mutations:
            seen = scene.showing(changed, old)
            seen = seen.with_values(variables=Variables(body.variables, seen))
            changed = self._mutated(mutation, mutation.value(seen), changed, target)
            if self._defaulter is not None and not attributes.subresource:
                self._defaulter(changed, target)
        if ENCODER.encode(changed) == before:
            return False
        if target is not attributes.resource and self._catalog is not None and not attributes.subresource:
            changed = await self._catalog.convert(changed, target, attributes.resource)
        attributes.object = changed
        return True

    def _mutated(self, mutation: Mutation, value: Any, one: Object, target: Resource) -> Object:
        if mutation.kind == APPLY:
            if not isinstance(value, dict):
                raise MutationError(
                    f"unsupported return type from ApplyConfiguration expression: {type(value).__name__}"
                )
            structure = self._structures(target)
            atomic = list(_atomics(value, structure, ""))
            if atomic:
                told = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
                raise MutationError(f"error applying patch: invalid ApplyConfiguration: {told}")
            found: Object = merge(one, value, structure)
        else:
            if not isinstance(value, list):
                raise MutationError("type mismatch: JSONPatchType.patch must be a list")
            try:
                found = jsonpatch.apply(one, [dict(operation) for operation in value])
            except (StatusError, TypeError, ValueError) as error:
                raise MutationError(f"JSON Patch: {error}") from error
        _check_identity(one, found)
        return found


def _identity(params: Object | None) -> str:
    metadata = (params or {}).get("metadata") or {}
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}" if params is not None else ""


def _check_identity(before: Object, after: Object) -> None:
    """What an object is called is not for policies to change."""
    old, new = before.get("metadata") or {}, after.get("metadata")
    if not isinstance(new, dict) or any(before.get(key) != after.get(key) for key in FIXED):
        raise MutationError("error applying patch: apiVersion, kind and metadata may not be taken away or changed")
    for key in FIXED_META:
        if old.get(key) != new.get(key):
            raise MutationError(f"error applying patch: metadata.{key} may not be changed")


def _atomics(value: Any, structure: Structure | None, path: str) -> Iterator[str]:
    """The places where a configuration would replace something whole: more would be lost than its writer names."""
    if structure is None or path in (".apiVersion", ".kind"):
        return
    if isinstance(value, dict) and structure.form == MAP:
        if structure.atomic and path:
            yield path
        for name, inner in value.items():
            yield from _atomics(inner, structure.child(name), f"{path}.{name}")
    elif isinstance(value, list) and structure.form == LIST:
        if structure.atomic:
            yield path
        for index, inner in enumerate(value):
            yield from _atomics(inner, structure.element, f"{path}[{index}]")


def _refusal(attributes: Attributes, policy: str, binding: str, why: str) -> StatusError:
    told = refuse(attributes, f"policy '{policy}' with binding '{binding}' denied request: {why}")
    return StatusError("Invalid", told.message, code=422, details=told.details)
