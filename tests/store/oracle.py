"""The rules of the store written down the plainest way: a list of changes, replayed for each question."""

from __future__ import annotations

from attrs import define, field

from dashpot.runtime.store.base import Delete, Entry, Event, Put, Range, Written


@define(eq=False)
class Oracle:
    """Change i of `changes` made revision i + 2: key, value (None: deleted), lease."""

    changes: list[tuple[str, bytes | None, int]] = field(factory=list)
    compacted: int = 0

    @property
    def revision(self) -> int:
        return len(self.changes) + 1

    def state(self, revision: int = 0) -> dict[str, Entry]:
        """All keys as of a revision."""
        found: dict[str, Entry] = {}
        for number, (key, value, lease) in enumerate(self.changes[: (revision or self.revision) - 1], 2):
            if value is None:
                del found[key]
            else:
                created = found[key].created if key in found else number
                found[key] = Entry(key, value, created, number, lease)
        return found

    def range(self, prefix: str, start: str, limit: int, revision: int) -> Range:
        found = [e for k, e in sorted(self.state(revision).items()) if k.startswith(prefix) and k >= start]
        left = max(0, len(found) - limit) if limit else 0
        return Range(found[: limit or None], revision or self.revision, left > 0, left)

    def put(self, put: Put) -> Written:
        current = self.state().get(put.key)
        if put.expect is not None and put.expect != (current.modified if current else 0):
            return Written(False, self.revision, current)
        self.changes.append((put.key, put.value, put.lease))
        return Written(True, self.revision, None, current)

    def delete(self, delete: Delete) -> Written:
        current = self.state().get(delete.key)
        if current is None or delete.expect not in (None, current.modified):
            return Written(False, self.revision, current)
        self.changes.append((delete.key, None, 0))
        return Written(True, self.revision, None, current)

    def events(self, prefix: str, after: int) -> list[Event]:
        found = []
        for number, (key, value, lease) in enumerate(self.changes, 2):
            if number > after and key.startswith(prefix):
                previous = self.state(number - 1).get(key)
                if value is None:
                    assert previous is not None
                    found.append(Event(number, key, None, previous, previous.created, previous.lease))
                else:
                    created = previous.created if previous else number
                    found.append(Event(number, key, value, previous, created, lease))
        return found
