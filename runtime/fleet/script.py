"""What a simulated pod does, as its annotations say.

metadata:
  annotations:
    fake.dashpot.dev/start-after: 2s     # stays ContainerCreating so long (default 0s)
    fake.dashpot.dev/ready-after: 3s     # after the start; never (default 0s)
    fake.dashpot.dev/run-for: 10s        # then it ends; default: for ever, or 1s where it is not to be restarted
    fake.dashpot.dev/exit-code: "1"      # how it ends (default 0)
    fake.dashpot.dev/stop-after: 1s      # how long it takes to stop; never (default 0s)
    fake.dashpot.dev/cpu: 250m           # what it uses (default: what it asks for)
    fake.dashpot.dev/memory: 64Mi
"""

from __future__ import annotations

import math
import re
from typing import Any

from attrs import frozen

from dashpot.model.objects.quantity import Quantity, QuantityError, parse, total, whole

Object = dict[str, Any]

PREFIX = "fake.dashpot.dev/"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
SHORT_S = 1.0
"""How long a pod runs that is meant to end."""


class ScriptError(ValueError):
    """An annotation that cannot be read; the text names it."""


@frozen
class Script:
    """One pod's course. Times in seconds; infinity: never."""

    start_after: float = 0.0
    ready_after: float = 0.0
    run_for: float = math.inf
    exit_code: int = 0
    stop_after: float = 0.0

    @staticmethod
    def of(pod: Object) -> Script:
        """From the annotations; ScriptError."""
        told = pod["metadata"].get("annotations") or {}
        ends = (pod.get("spec") or {}).get("restartPolicy", "Always") != "Always"
        code = told.get(f"{PREFIX}exit-code", "0")
        if not code.isascii() or not code.isdigit() or int(code) > 255:
            raise ScriptError(f"annotation {PREFIX}exit-code: '{code}' is no exit status: write 0 to 255")
        return Script(
            _seconds(told, "start-after", 0.0),
            _seconds(told, "ready-after", 0.0),
            _seconds(told, "run-for", SHORT_S if ends else math.inf),
            int(code),
            _seconds(told, "stop-after", 0.0),
        )


def usage(pod: Object) -> dict[str, Quantity]:
    """Processor and memory that it uses: what the annotations say, else what its containers ask for, else a little."""
    told = pod["metadata"].get("annotations") or {}
    found = {}
    for name, least in (("cpu", parse("1m")), ("memory", whole(8 * 1024 * 1024, "BinarySI"))):
        text = told.get(PREFIX + name)
        if text is not None:
            try:
                found[name] = parse(text)
                continue
            except QuantityError:
                pass
        asked = [
            parse(str(one["resources"]["requests"][name]))
            for one in (pod.get("spec") or {}).get("containers") or ()
            if name in ((one.get("resources") or {}).get("requests") or {})
        ]
        found[name] = total(asked) if asked else least
    return found


def _seconds(told: Object, name: str, default: float) -> float:
    text = told.get(PREFIX + name)
    if text is None:
        return default
    if text == "never":
        return math.inf
    pieces = _DURATION.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        raise ScriptError(f"annotation {PREFIX}{name}: '{text}' is no duration: write 500ms, 3s, 1m30s or never")
    return math.fsum(float(number) * UNITS[unit] for number, unit in pieces)
