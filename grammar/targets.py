"""What faults, runs and properties point at: actors, modules, kinds."""

from __future__ import annotations

from lark import Token

from dashpot.grammar.scope import Declared, Scope
from dashpot.grammar.suggest import did_you_mean, suggestion
from dashpot.grammar.tree import Part, Rule, dotted, parts, rule, tokens
from dashpot.grammar.writes import kind_named
from dashpot.model.program import Fault

FAULTS = ("crash", "stale_restart", "relist", "drop", "timeout", "down", "partition", "pause", "node_down")
"""The faults of Kubernetes that the kernel knows."""

OF_CACHES = ("relist", "drop")
"""Faults that hit a kind in one cache; the others hit an actor, `node_down` a node."""

STOPPABLE = ("controller", "process")
"""Actors that run somewhere, and so can crash, pause or be cut off."""


def actor(part: Part, name: str, scope: Scope, sorts: tuple[str, ...] = ()) -> Declared | None:
    """The actor of that name (`Name` or `module.Name`), or a message; `sorts` limits what it may be."""
    found = scope.module.visible.get(name)
    if found is None and "." in name:
        module, _, last = name.rpartition(".")
        there = scope.universe.modules.get(module)
        found = there.own.get(last) if there is not None else None
    if found is None or found.what != "actor":
        known = [
            d.name for d in scope.module.visible.values() if d.what == "actor" and (not sorts or d.tree.data in sorts)
        ]
        fix = suggestion(
            scope, name, known, "actors are " + ", ".join(known) if known else "declare a controller or process"
        )
        scope.error("D108", part, f"I know no actor `{name}`.", fix)
        return None
    if sorts and found.tree.data not in sorts:
        what = (
            "an environment"
            if found.tree.data == "environment"
            else f"a{'n' * (found.tree.data == 'admission')} {found.tree.data}"
        )
        scope.error("D108", part, f"`{name}` is {what}, which cannot be meant here.", f"name a {' or '.join(sorts)}")
        return None
    return found


def fault_name(token: Token, scope: Scope) -> str | None:
    """A fault of the closed set, or a message."""
    if str(token) in FAULTS:
        return str(token)
    scope.error(
        "D110",
        token,
        f"There is no fault `{token}`.",
        did_you_mean(str(token), FAULTS, "faults are " + ", ".join(FAULTS)),
    )
    return None


def fault(tree: Rule, scope: Scope) -> Fault | None:
    """`fault crash A at most 1` of an environment, `crash A: 1` of a check."""
    number = rule(tree, "limit")
    limit = tokens(number if number is not None else tree, "INT")[0]
    aimed = aim(tree, scope)
    if aimed is None:
        return None
    name, target, by = aimed
    return Fault(name, target, int(limit), by, scope.span(tree))


def aim(tree: Rule, scope: Scope) -> tuple[str, str | None, str | None] | None:
    """Name, target and `for` of a fault; None if it was reported."""
    names = tokens(tree, "NAME")
    name = fault_name(names[0], scope)
    if name is None:
        return None
    at = rule(tree, "dotted")
    target = None
    if at is not None:
        if name in OF_CACHES or name == "node_down":
            target = kind_named(tokens(at)[0], scope)
            if name == "node_down" and target not in (None, "Node"):
                scope.error("D108", at, "Only a Node goes down.", "write `node_down`, or `node_down Node`")
        else:
            found = actor(at, dotted(at), scope, STOPPABLE)
            target = found.name if found is not None else None
        if target is None:
            return None
    by = None
    if len(names) > 1:
        found = actor(names[1], str(names[1]), scope, STOPPABLE)
        by = found.name if found is not None else None
        if name not in OF_CACHES:
            scope.error(
                "D110",
                names[1],
                f"`{name}` hits an actor; only relist and drop hit a kind in the cache of one.",
                f"write `{name} {names[1]}`",
            )
    return name, target, by


def runs(tree: Rule, scope: Scope) -> tuple[str, ...]:
    """The actors of a `run`: a name is an actor or a module.

    A module stands for its controllers, processes and admission hooks. What need not happen is asked for by name: an
    environment brings accidents and users of its own.
    """
    found: dict[str, None] = {}
    for part in parts(tree):
        assert not isinstance(part, Token)
        name = dotted(part)
        visible = scope.module.visible.get(name)
        module = scope.universe.modules.get(name)
        if module is not None and (visible is None or visible.what != "actor"):
            there = [d for d in module.own.values() if d.what == "actor"]
            actors = [d.name for d in there if d.tree.data != "environment"]
            if not actors:
                text = f"The module {name} declares no controller, process or admission hook."
                names = " or ".join(f"`{name}.{d.name}`" for d in there)
                scope.error("D108", part, text, f"name its environment: {names}" if there else "name another")
            found.update(dict.fromkeys(actors))
            continue
        one = actor(part, name, scope)
        if one is not None:
            found[one.name] = None
    return tuple(found)
