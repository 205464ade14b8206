"""`extern fun`: which Python function computes it.

Of a library module `kubernetes.foo` it is the function of that name in `model/extern/foo.py`; for a person's
`shop.loop` it stands in `shop.py` beside it. What needs more than its arguments (a key that signs) is given by whoever
runs the spec, and takes the place of that function.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from dashpot.model.expr import Extern
from dashpot.model.span import Span

Function = Callable[..., Any]
LIBRARY = "kubernetes."


class ExternError(Exception):
    """A function that is declared and cannot be found or called; says where it should be."""

    def __init__(self, text: str, span: Span) -> None:
        super().__init__(text)
        self.text = text
        self.span = span


class Externs:
    """Finds functions; loads each file once. `given`: functions instead of those, by `module.name`."""

    def __init__(self, given: Mapping[str, Function] | None = None) -> None:
        self._given = dict(given or {})
        self._modules: dict[str, ModuleType] = {}

    def __call__(self, x: Extern) -> Function:
        """The function of a call; ExternError."""
        function: Function | None = self._given.get(f"{x.module}.{x.name}")
        where = "what was given"
        if function is None:
            module, where = self._module(x)
            function = getattr(module, x.name, None)
        if function is None or not callable(function):
            raise ExternError(f"`extern fun {x.name}` needs a function `{x.name}` in {where}", x.span)
        try:
            inspect.signature(function).bind(*x.args)
        except TypeError:
            count = f"{len(x.args)} argument{'s' * (len(x.args) != 1)}"
            raise ExternError(f"`{x.name}` in {where} does not take {count}, as the spec gives it", x.span) from None
        except ValueError:
            pass  # a function of C tells nothing of its parameters
        return function

    def _module(self, x: Extern) -> tuple[ModuleType, str]:
        if x.module.startswith(LIBRARY):
            name = "dashpot.model.extern." + x.module.removeprefix(LIBRARY)
            try:
                return importlib.import_module(name), name
            except ModuleNotFoundError:
                raise ExternError(f"`extern fun {x.name}` needs the module {name}", x.span) from None
        path = Path(x.file).with_suffix(".py")
        found = self._modules.get(str(path))
        if found is None:
            found = self._modules[str(path)] = _loaded(path, x)
        return found, str(path)


def _loaded(path: Path, x: Extern) -> ModuleType:
    if not path.is_file():
        raise ExternError(f"`extern fun {x.name}` is computed by {path}, and there is no such file", x.span)
    spec = importlib.util.spec_from_file_location(f"dashpot_extern_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ExternError(f"{path} cannot be loaded", x.span)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as problem:  # a person's file may fail in any way
        raise ExternError(f"{path} failed when it was loaded: {type(problem).__name__}: {problem}", x.span) from problem
    return module
