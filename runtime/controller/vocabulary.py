"""The whole vocabulary: all modules that compile terms."""

from __future__ import annotations

from dashpot.runtime.controller import builtins, folds, lookups, methods, operators, terms
from dashpot.runtime.controller.terms import Externs, Terms, no_externs
from dashpot.runtime.controller.views import Views

MODULES = (builtins, folds, lookups, methods, operators, terms)
"""Each puts its rules into `terms.RULES` when it is imported."""


def terms_of(views: Views, externs: Externs = no_externs) -> Terms:
    """What compiles terms over some views."""
    return Terms(views, externs)
