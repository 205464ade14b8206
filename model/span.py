"""Places in a spec's text, so that every message and every step of a story can point at a line."""

from attrs import field, frozen


@frozen
class Span:
    """A region of one file: lines and columns count from 1, the end column is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NOWHERE = Span("", 0, 0, 0, 0)


def span_field() -> Span:
    """The `span` field of a node: where it stands, no part of what it is (two equal terms stay equal)."""
    return field(default=NOWHERE, eq=False, repr=False)
