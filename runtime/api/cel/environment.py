"""An environment: variables with their types; it compiles expressions into programs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from time import perf_counter
from typing import Any

from attrs import field, frozen

from dashpot.runtime.api.cel.budget import RUNTIME_LIMIT
from dashpot.runtime.api.cel.cost import estimate
from dashpot.runtime.api.cel.declare import Declarations, declare
from dashpot.runtime.api.cel.evaluate import Compiler
from dashpot.runtime.api.cel.front import Checker
from dashpot.runtime.api.cel.runs import Run
from dashpot.runtime.api.cel.tree import Ident, Node, Type, children
from dashpot.runtime.api.cel.values import CelError, EvaluationError
from dashpot.runtime.api.tally import tally

Object = dict[str, Any]

_COMPILED = tally("apiserver_cel_compilation_duration_seconds").hist()


@frozen(eq=False)
class Program:
    """A compiled expression; free of state, so it may run as often as one likes."""

    expression: str
    type: Type
    cost: int
    """Estimated cost at worst."""
    uses: frozenset[str]
    """The variables that it reads."""
    _run: Run
    _slots: tuple[tuple[str, int, Any], ...]
    _size: int

    def evaluate(self, bindings: Mapping[str, Any], budget: list[int] | None = None) -> Any:
        """The value of the expression.

        `bindings` gives the variables; one read but missing is an EvaluationError. `budget` holds the steps left,
        shared by several programs; None stands for RUNTIME_LIMIT. EvaluationError where the expression fails,
        BudgetExceeded where it takes too many steps.
        """
        frame: list[Any] = [None] * self._size
        frame[0] = RUNTIME_LIMIT if budget is None else budget[0]
        for name, slot, reader in self._slots:
            if name not in bindings:
                raise EvaluationError(f"no such attribute(s): {name}")
            value = bindings[name]
            frame[slot] = value if reader is None or value is None else reader(value)
        try:
            return self._run(frame)
        except RecursionError:
            raise EvaluationError("value is nested too deeply") from None
        except (TypeError, AttributeError, ValueError, OverflowError):
            raise EvaluationError("no such overload") from None
        finally:
            if budget is not None:
                budget[0] = frame[0]


@frozen(eq=False)
class Environment:
    """Variables, each with a structural schema (`{"type": "object", …}`) or a CEL type (`dyn`, `list<string>`).

    A schema with `"x-dashpot-optional": True` makes an optional; one with `"x-kubernetes-embedded-resource": True` has
    apiVersion, kind, metadata.name and metadata.generateName besides its properties.
    """

    variables: Mapping[str, Object | str]
    _declared: Declarations = field(init=False)
    _checker: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Declares the variables."""
        declared = declare(self.variables)
        object.__setattr__(self, "_declared", declared)
        object.__setattr__(self, "_checker", Checker(declared.types, declared.pool))

    def compile(self, expression: str, result: tuple[str, ...] = ()) -> Program:
        """Compiles an expression; `result` lists the types that it may have (`bool`, `string`), any if empty.

        CelError with upstream's text: `compilation failed: ERROR: <input>:1:5: undefined field 'nosuch'…`.
        """
        began = perf_counter()
        tree = self._checker.check(expression)
        if result and tree.type.kind not in (*result, "dyn"):
            raise CelError(f"must evaluate to {' or '.join(result)}")
        slots = {name: at for at, name in enumerate(self._declared.types, 1)}
        compiler = Compiler(self._declared, slots)
        run = compiler.compile(tree)
        uses = frozenset(variables(tree) & slots.keys())
        places = tuple((name, slots[name], self._declared.readers.get(name)) for name in sorted(uses))
        made = Program(expression, tree.type, estimate(tree, self._declared), uses, run, places, compiler.size)
        _COMPILED.observe(perf_counter() - began)
        return made


def variables(node: Node) -> set[str]:
    """The names that a tree mentions."""
    if isinstance(node, Ident):
        return {node.name}
    return {name for child in children(node) for name in variables(child)}


def compile(expression: str, variables: Mapping[str, Object | str], result: tuple[str, ...] = ()) -> Program:
    """Compiles one expression; environments of plain types are kept."""
    if all(isinstance(kind, str) for kind in variables.values()):
        return _plain(tuple((name, str(kind)) for name, kind in variables.items())).compile(expression, result)
    return Environment(variables).compile(expression, result)


@lru_cache(64)
def _plain(variables: tuple[tuple[str, str], ...]) -> Environment:
    return Environment(dict(variables))
