"""Expressions of admission: what they may name, and match conditions, which decide before a webhook or policy is asked.

Sources: k8s.io/apiserver pkg/admission/plugin/webhook/matchconditions and pkg/admission/plugin/cel, release 1.34.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from attrs import evolve, frozen

from dashpot.runtime.api.admit.base import Object
from dashpot.runtime.api.tally import tally

VARIABLES: Mapping[str, str] = {
    "object": "dyn",
    "oldObject": "dyn",
    "request": "dyn",
    "params": "dyn",
    "namespaceObject": "dyn",
    "variables": "dyn",
    "authorizer": "dyn",
}
"""Names that expressions of admission may use; which of them have a value depends on who asks."""


@frozen
class Scene:
    """The values of the variables for one write."""

    bindings: Mapping[str, Any]

    def showing(self, new: Object | None, old: Object | None) -> Scene:
        """The same write with its objects in another version."""
        return self.with_values(object=new, oldObject=old)

    def with_values(self, **values: Any) -> Scene:
        """The same write with other values."""
        return evolve(self, bindings={**self.bindings, **values})


_EVALUATED = tally("apiserver_cel_evaluation_duration_seconds").hist()
_ERRORS, _TIMES, _EXCLUSIONS = (
    tally(f"apiserver_admission_match_condition_{what}")
    for what in ("evaluation_errors_total", "evaluation_seconds", "exclusions_total")
)
About = tuple[str, str, str, str]
"""Whose conditions: name, `webhook` or `policy`, `admit` or `validate`, operation."""


class ConditionError(Exception):
    """An expression that could not be evaluated; the text is for the user."""


class Expression:
    """One compiled expression. One that does not compile fails whenever it is evaluated."""

    def __init__(self, text: str) -> None:
        from dashpot.runtime.api import cel

        self.text = text
        self._error = ""
        self._program: cel.Program | None = None
        try:
            self._program = cel.compile(text, VARIABLES)
        except cel.CelError as error:
            self._error = f"compilation error: {error}"

    @property
    def broken(self) -> bool:
        """Whether it does not compile."""
        return self._program is None

    def value(self, scene: Scene) -> Any:
        """The value; ConditionError if there is none."""
        from dashpot.runtime.api import cel

        if self._program is None:
            raise ConditionError(self._error)
        began = perf_counter()
        try:
            return self._program.evaluate(scene.bindings)
        except cel.CelError as error:
            raise ConditionError(f"expression '{self.text}' resulted in error: {error}") from error
        finally:
            _EVALUATED.observe(perf_counter() - began)


class Conditions:
    """Match conditions: all must be true."""

    def __init__(self, sources: Sequence[Object]) -> None:
        self._expressions = [Expression(str(source.get("expression") or "")) for source in sources]

    @staticmethod
    def of(sources: Sequence[Object] | None) -> Conditions | None:
        """The conditions of a list; None where there are none."""
        return Conditions(sources) if sources else None

    def hold(self, scene: Scene, about: About, *, fail_open: bool) -> bool:
        """Whether all are true. If none is false but one fails: no, or ConditionError unless `fail_open`. `about` is
        how the metrics name them."""
        began = perf_counter()
        try:
            found = self._hold(scene, fail_open=fail_open)
        except ConditionError:
            _ERRORS.cell(*about).value += 1
            raise
        finally:
            _TIMES.hist(*about).observe(perf_counter() - began)
        if not found:
            _EXCLUSIONS.cell(*about).value += 1
        return found

    def _hold(self, scene: Scene, *, fail_open: bool) -> bool:
        errors: list[str] = []
        for expression in self._expressions:
            try:
                if expression.value(scene) is not True:
                    return False
            except ConditionError as error:
                errors.append(str(error))
        if not errors:
            return True
        if fail_open:
            return False
        raise ConditionError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
