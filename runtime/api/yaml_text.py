"""Objects as YAML, with every string quoted that another reader of YAML would take for a number, a truth or a time."""

from __future__ import annotations

import re
from typing import Any

import yaml

_NUMBERS = re.compile(r"^[-+]?(\d[\d_]*)?\.?\d[\d_]*([eE][-+]?\d+)?$|^[-+]?0[oOxXbB][0-9a-fA-F_]+$")


class _Dumper(yaml.CSafeDumper if hasattr(yaml, "CSafeDumper") else yaml.SafeDumper):  # type: ignore[misc]
    """Without aliases, and careful with `1e3`, which PyYAML's rules (YAML 1.1) take for text and Go's for a number."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_implicit_resolver("!number", _NUMBERS, list("-+.0123456789"))


def dump(obj: Any) -> bytes:
    """One document, keys in order of the alphabet as Kubernetes writes them."""
    text: bytes = yaml.dump(
        obj, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=1_000_000, encoding="utf-8"
    )
    return text


def item(obj: Any) -> bytes:
    """One item of a list at the list's own depth: `- apiVersion: …`."""
    lines = dump(obj).splitlines(keepends=True)
    return b"- " + b"  ".join(lines)
