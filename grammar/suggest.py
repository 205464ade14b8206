"""Fixes for names that nobody declared: the nearest one, a `use` that is missing, or what there is."""

from __future__ import annotations

from collections.abc import Iterable

from dashpot.grammar.nearest import nearest
from dashpot.grammar.scope import Scope

FEW = 8
"""So many names are listed in full."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """A fix: the nearest name, or a list of the few there are, or `otherwise`."""
    names = sorted(set(known))
    close = nearest(name, names)
    if close is not None:
        return f"did you mean `{close}`?"
    if names and len(names) <= FEW and not otherwise:
        return "there is " + ", ".join(f"`{n}`" for n in names)
    return otherwise


def hint_of_use(scope: Scope, name: str) -> str:
    """The `use` line that would make `name` known, if another module declares it."""
    found = scope.universe.names.get(name)
    if found is None or found.module is scope.module:
        return ""
    return f"`{name}` is declared in {found.module.name}: write `use {found.module.name} ({name})`"


def suggestion(scope: Scope, name: str, known: Iterable[str], otherwise: str = "") -> str:
    """How to mend an unknown name: import it, or the nearest one."""
    use = hint_of_use(scope, name)
    if use:
        return use
    close = nearest(name, known)
    return f"did you mean `{close}`?" if close else otherwise
