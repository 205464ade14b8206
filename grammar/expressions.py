"""Terms with every rule of the grammar known: import from here, not from `terms`, outside of the term modules."""

from dashpot.grammar import calls, literals, methods, operators
from dashpot.grammar.terms import condition, member, members, present, settle, side, term, value

RULE_MODULES = (calls, literals, methods, operators)
"""The modules that fill `terms.RULES`."""

__all__ = ["RULE_MODULES", "condition", "member", "members", "present", "settle", "side", "term", "value"]
