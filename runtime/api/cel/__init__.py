"""CEL as Kubernetes speaks it: expressions are checked once, then run as closures under a budget of steps."""

from dashpot.runtime.api.cel.budget import EXPRESSION_LIMIT, RUNTIME_LIMIT, TOTAL_LIMIT, excess
from dashpot.runtime.api.cel.environment import Environment, Program, compile
from dashpot.runtime.api.cel.values import BudgetExceeded, CelError, EvaluationError

__all__ = [
    "EXPRESSION_LIMIT",
    "RUNTIME_LIMIT",
    "TOTAL_LIMIT",
    "BudgetExceeded",
    "CelError",
    "Environment",
    "EvaluationError",
    "Program",
    "compile",
    "excess",
]
