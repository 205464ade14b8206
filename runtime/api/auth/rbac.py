"""RBAC: subjects to rules, found from the newest roles and bindings, and answers that are remembered while they hold.

Source: plugin/pkg/auth/authorizer/rbac/rbac.go and pkg/registry/rbac/validation/rule.go, release 1.34.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import define, field, frozen

from dashpot.model.objects.status import shown
from dashpot.runtime.api.auth.attributes import NO_OPINION, AuthzAttributes, Decision, account_user
from dashpot.runtime.api.auth.rules import LabelSelector, Rule, compile_rules, compile_selector
from dashpot.runtime.api.exchange import User
from dashpot.runtime.api.view import View

Object = dict[str, Any]

GROUP = "rbac.authorization.k8s.io"
KINDS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
_ANSWERS = 16_384
"""Answers kept before all are forgotten: a bound on memory."""
_SUBJECTS = 4_096


class NoRole(Exception):
    """A binding names a role that does not exist; the text is upstream's."""


@frozen
class _Grant:
    """A binding as one subject sees it: where its rules come from, and the words for it."""

    kind: str
    role: str
    namespace: str
    source: str


@define(eq=False)
class _Subject:
    """What one user with these groups holds: grants of the whole cluster, and by namespace as they are asked for."""

    name: str
    groups: frozenset[str]
    everywhere: list[_Grant]
    local: dict[str, list[_Grant]] = field(factory=dict)


def _told_subject(subject: Object, namespace: str) -> str:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind == "ServiceAccount":
        name = f"{name}/{subject.get('namespace') or namespace}"
    return f"{kind} {shown(name)}"


def _source(binding: Object, subject: Object, namespace: str) -> str:
    meta, role = binding["metadata"], binding.get("roleRef") or {}
    kind, name = ("RoleBinding", f"{meta['name']}/{namespace}") if namespace else ("ClusterRoleBinding", meta["name"])
    named = f"{role.get('kind', '')} {shown(role.get('name', ''))}"
    return f"RBAC: allowed by {kind} {shown(name)} of {named} to {_told_subject(subject, namespace)}"


def _key(subject: Object, namespace: str) -> tuple[str, str] | None:
    """How a subject is looked up: users and service accounts by user name, groups by group."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return "user", name
    if kind == "Group":
        return "group", name
    if kind == "ServiceAccount":
        home = subject.get("namespace") or namespace
        return ("user", account_user(home, name)) if home else None
    return None


class _Bindings:
    """Bindings of one scope by subject. The first subject of a binding that fits is the one that is told."""

    def __init__(self, bindings: Iterator[Object], namespace: str) -> None:
        self._rows: list[tuple[Object, list[Object]]] = []
        self._by_subject: dict[tuple[str, str], list[int]] = {}
        self._namespace = namespace
        for row, binding in enumerate(sorted(bindings, key=lambda one: one["metadata"]["name"])):
            subjects = binding.get("subjects") or []
            self._rows.append((binding, subjects))
            for subject in subjects:
                key = _key(subject, namespace)
                if key is not None:
                    self._by_subject.setdefault(key, []).append(row)

    def grants(self, name: str, groups: frozenset[str]) -> list[_Grant]:
        """What this user holds here, in order of the bindings' names."""
        rows = set(self._by_subject.get(("user", name), ()))
        for group in groups:
            rows.update(self._by_subject.get(("group", group), ()))
        found = []
        for row in sorted(rows):
            binding, subjects = self._rows[row]
            subject = next(one for one in subjects if self._applies(one, name, groups))
            role = binding.get("roleRef") or {}
            source = _source(binding, subject, self._namespace)
            found.append(_Grant(role.get("kind", ""), role.get("name", ""), self._namespace, source))
        return found

    def _applies(self, subject: Object, name: str, groups: frozenset[str]) -> bool:
        key = _key(subject, self._namespace)
        return key is not None and (key[1] == name if key[0] == "user" else key[1] in groups)


class Rbac:
    """Answers by roles and bindings of the view. Everything remembered is dropped as soon as one of them changes."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._versions: tuple[int, ...] = ()
        self._cluster: _Bindings | None = None
        self._spaces: dict[str, _Bindings] = {}
        self._by_namespace: dict[str, list[Object]] | None = None
        self._subjects: dict[tuple[str, tuple[str, ...]], _Subject] = {}
        self._answers: dict[Any, Decision] = {}
        self._compiled: dict[tuple[str, str], tuple[Object, tuple[Rule, ...]]] = {}
        self._aggregated: dict[str, tuple[Rule, ...]] = {}

    def decide(self, attributes: AuthzAttributes) -> Decision:
        """Allowed, with the binding that allows it, or no opinion."""
        self._refresh()
        user, name = attributes.user, attributes.name
        path = "" if attributes.resource_request else attributes.path
        key = (
            user.name,
            user.groups,
            attributes.verb,
            attributes.group,
            attributes.resource,
            attributes.subresource,
            attributes.namespace,
            path,
        )
        found = self._answers.get(key) or self._answers.get((key, name))
        if found is None:
            found, by_name = self._evaluate(attributes)
            if len(self._answers) >= _ANSWERS:
                self._answers.clear()
            # Where no rule with resourceNames had a say, one answer serves all names.
            self._answers[(key, name) if by_name else key] = found
        return found

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """All rules that a user holds in a namespace ("" for the cluster's alone), and roles that were not found."""
        self._refresh()
        rules: list[Rule] = []
        errors: list[str] = []
        for grant in self._grants(user, namespace):
            try:
                rules.extend(self.role_rules(grant.kind, grant.role, grant.namespace))
            except NoRole as error:
                errors.append(str(error))
        return rules, errors

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...]:
        """The rules that a roleRef stands for, those of aggregated roles computed now; NoRole if there is none."""
        self._refresh()
        if kind == "ClusterRole":
            role = self._view.get(GROUP, "clusterroles", "", name)
            if role is None:
                raise NoRole(f"clusterrole.{GROUP} {shown(name)} not found")
            return self._aggregate(role) if _selectors(role) else self._rules("", name, role)
        if kind != "Role":
            raise NoRole(f"unsupported role reference kind: {shown(kind)}")
        role = self._view.get(GROUP, "roles", namespace, name)
        if role is None:
            raise NoRole(f"role.{GROUP} {shown(name)} not found")
        return self._rules(namespace, name, role)

    def _evaluate(self, attributes: AuthzAttributes) -> tuple[Decision, bool]:
        """The answer, and whether it depends on the name of the object."""
        errors: list[str] = []
        by_name = False
        for grant in self._grants(attributes.user, attributes.namespace):
            try:
                rules = self.role_rules(grant.kind, grant.role, grant.namespace)
            except NoRole as error:
                errors.append(str(error))
                continue
            for rule in rules:
                if rule.matches(attributes):
                    by_name = by_name or bool(rule.names)
                    if not rule.names or attributes.name in rule.names:
                        return Decision(True, grant.source), by_name
        if not errors:
            return NO_OPINION, by_name
        unique = list(dict.fromkeys(errors))
        return Decision(False, "RBAC: " + (unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")), by_name

    def _grants(self, user: User, namespace: str) -> Iterator[_Grant]:
        subject = self._subject(user)
        yield from subject.everywhere
        if namespace:
            local = subject.local.get(namespace)
            if local is None:
                local = subject.local[namespace] = self._space(namespace).grants(subject.name, subject.groups)
            yield from local

    def _subject(self, user: User) -> _Subject:
        key = (user.name, user.groups)
        found = self._subjects.get(key)
        if found is None:
            if self._cluster is None:
                self._cluster = _Bindings(iter(self._view.list(GROUP, "clusterrolebindings")), "")
            if len(self._subjects) >= _SUBJECTS:
                self._subjects.clear()
            groups = frozenset(user.groups)
            found = _Subject(user.name, groups, self._cluster.grants(user.name, groups))
            self._subjects[key] = found
        return found

    def _space(self, namespace: str) -> _Bindings:
        found = self._spaces.get(namespace)
        if found is None:
            if self._by_namespace is None:
                self._by_namespace = {}
                for binding in self._view.list(GROUP, "rolebindings"):
                    self._by_namespace.setdefault(binding["metadata"].get("namespace", ""), []).append(binding)
            found = _Bindings(iter(self._by_namespace.get(namespace, ())), namespace)
            # Namespaces without bindings are not remembered: requests may name any number of them.
            if namespace in self._by_namespace:
                self._spaces[namespace] = found
        return found

    def _rules(self, namespace: str, name: str, role: Object) -> tuple[Rule, ...]:
        known = self._compiled.get((namespace, name))
        if known is not None and known[0] is role:
            return known[1]
        rules = compile_rules(role.get("rules"))
        self._compiled[namespace, name] = (role, rules)
        return rules

    def _aggregate(self, role: Object) -> tuple[Rule, ...]:
        name = role["metadata"]["name"]
        found = self._aggregated.get(name)
        if found is None:
            roles = list(self._view.list(GROUP, "clusterroles"))
            found = self._aggregated[name] = compile_rules(aggregate(role, roles))
        return found

    def _refresh(self) -> None:
        version = self._view.version
        now = (
            version(GROUP, "clusterroles"),
            version(GROUP, "clusterrolebindings"),
            version(GROUP, "roles"),
            version(GROUP, "rolebindings"),
        )
        if now == self._versions:
            return
        before = self._versions or (None, None, None, None)
        self._answers.clear()
        if now[0] != before[0] or now[2] != before[2]:
            self._aggregated.clear()
            self._drop_compiled()
        if now[1] != before[1]:
            self._cluster = None
            self._subjects.clear()
        if now[3] != before[3]:
            self._by_namespace = None
            self._spaces.clear()
            for subject in self._subjects.values():
                subject.local.clear()
        self._versions = now

    def _drop_compiled(self) -> None:
        """Forgets compiled roles that are no more, so that deleted ones do not pile up."""
        for namespace, name in list(self._compiled):
            plural = "roles" if namespace else "clusterroles"
            if self._view.get(GROUP, plural, namespace, name) is None:
                del self._compiled[namespace, name]


def _selectors(role: Object) -> tuple[LabelSelector, ...]:
    rule = role.get("aggregationRule") or {}
    return tuple(compile_selector(one) for one in rule.get("clusterRoleSelectors") or ())


def aggregate(role: Object, roles: list[Object]) -> list[Object]:
    """The rules of an aggregated ClusterRole: those of all roles that its selectors choose, each once, by role name.

    A chosen role may be aggregated itself (admin takes edit, which takes view); circles add nothing.
    """
    ordered = sorted(roles, key=lambda one: one["metadata"]["name"])
    found: list[Object] = []
    _collect(role, ordered, found, {role["metadata"]["name"]})
    return found


def _collect(role: Object, roles: list[Object], found: list[Object], seen: set[str]) -> None:
    selectors = _selectors(role)
    for other in roles:
        name = other["metadata"]["name"]
        if name in seen or not any(one.selects(other["metadata"].get("labels") or {}) for one in selectors):
            continue
        seen.add(name)
        if _selectors(other):
            _collect(other, roles, found, seen)
        else:
            found.extend(rule for rule in other.get("rules") or () if rule not in found)


def aggregation_changes(view: View) -> list[Object]:
    """Aggregated ClusterRoles whose stored rules are not what their selectors give, with the rules that they should
    have: to be written back whenever ClusterRoles have changed."""
    roles = list(view.list(GROUP, "clusterroles"))
    changes = []
    for role in roles:
        if _selectors(role):
            rules = aggregate(role, roles)
            if rules != (role.get("rules") or []):
                changes.append({**role, "rules": rules})
    return changes
