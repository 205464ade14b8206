"""Another client of the same server, which must not notice what strangers do to it."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from attrs import define, field

from tests.fuzz.wire import Wire, forget_peak, memory

MIB = 1 << 20


@define
class Bystander:
    """Asks for one small object again and again; the kernel notes the server's largest memory meanwhile.

    Leaving it asserts: every answer was 200 and came within `patience_s`; memory grew by less than `growth` bytes.
    """

    wire: Wire
    pid: int
    patience_s: float = 1.0
    growth: int = 64 * MIB
    slowest: float = 0.0
    peak: int = 0
    answers: int = 0
    _before: int = 0
    _wrong: list[str] = field(factory=list)
    _stop: threading.Event = field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Bystander:
        forget_peak(self.pid)
        self._before = memory(self.pid)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        while True:
            try:
                begun = time.perf_counter()
                answer = self.wire.ask("GET", "/api/v1/namespaces/default")
                self.slowest = max(self.slowest, time.perf_counter() - begun)
                self.answers += 1
                if answer.code != 200:
                    self._wrong.append(f"{answer.code} {answer.message}")
            except OSError as error:
                self._wrong.append(repr(error))
                self.wire.drop()
            if self._stop.wait(0.02):
                return

    @property
    def grown(self) -> int:
        """Bytes by which the server's memory grew at most."""
        return self.peak - self._before

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join(30)
        self.peak = memory(self.pid, peak=True)
        self.wire.drop()
        if kind is None:
            assert not self._wrong, self._wrong[:3]
            assert self.answers and self.slowest < self.patience_s, f"another client waited {self.slowest:.2f} s"
            assert self.grown < self.growth, f"memory grew by {self.grown / MIB:.0f} MiB"
