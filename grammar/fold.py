"""Values of constant terms: what a `const`, a scope entry or a switch comes to."""

from __future__ import annotations

from collections.abc import Mapping

from dashpot.model.expr import Binary, Builtin, Const, Expr, Literal, Ternary, Unary

Value = int | bool | str


def fold(e: Expr, constants: Mapping[str, Value]) -> Value | None:
    """The value of a term over literals and constants; None if it has none (undefined, or not constant)."""
    match e:
        case Literal(value=value):
            return value
        case Const(name=name):
            return constants.get(name)
        case Unary(op=op, operand=inner):
            one = fold(inner, constants)
            if one is None or isinstance(one, str):
                return None
            return not one if op == "!" else -one
        case Ternary(test=test, then=then, other=other):
            chosen = fold(test, constants)
            return None if chosen is None else fold(then if chosen else other, constants)
        case Builtin(op="min" | "max" as op, args=(a, b)):
            x, y = fold(a, constants), fold(b, constants)
            if not isinstance(x, int) or not isinstance(y, int):
                return None
            return min(x, y) if op == "min" else max(x, y)
        case Binary(op=op, left=a, right=b):
            left, right = fold(a, constants), fold(b, constants)
            return None if left is None or right is None else _binary(op, left, right)
        case _:
            return None


def _binary(op: str, a: Value, b: Value) -> Value | None:
    if op in ("==", "!="):
        return (a == b) == (op == "==")
    if op == "+" and (isinstance(a, str) or isinstance(b, str)):
        return f"{a}{b}"
    if isinstance(a, str) or isinstance(b, str):
        return None
    match op:
        case "&&":
            return bool(a and b)
        case "||":
            return bool(a or b)
        case "<" | "<=":
            return a < b or (op == "<=" and a == b)
        case ">" | ">=":
            return a > b or (op == ">=" and a == b)
        case "+" | "-" | "*":
            return a + b if op == "+" else a - b if op == "-" else a * b
        case "/" | "%" if b != 0:
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # CEL truncates
            return quotient if op == "/" else a - quotient * b
        case _:
            return None
