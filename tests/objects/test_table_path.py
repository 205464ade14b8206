"""JSONPath of printer columns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.model.objects.table_path import PathError, compile_path

OBJ = {
    "spec": {
        "a": 1,
        "b.c": 2,
        "it's": 3,
        "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}, {"n": "z", "v": 3, "t": True}],
    },
    "metadata": {"annotations": {"k8s.io/x": "y", "a.b/c": "d"}},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.a", [1]),
        ("{.spec.a}", [1]),
        ("$.spec.a", [1]),
        ("spec.a", [1]),
        (".spec['b.c']", [2]),
        (r".spec.b\.c", [2]),
        (r".metadata.annotations.a\.b/c", ["d"]),
        ('.metadata.annotations["k8s.io/x"]', ["y"]),
        (r".spec['it\'s']", [3]),
        (".spec['a','b.c']", [1, 2]),
        (".spec.list[0].n", ["x"]),
        (".spec.list[-1].n", ["z"]),
        (".spec.list[0,2].n", ["x", "z"]),
        (".spec.list[1:].n", ["y", "z"]),
        (".spec.list[0:2].n", ["x", "y"]),
        (".spec.list[::2].n", ["x", "z"]),
        (".spec.list[*].v", [1, 2, 3]),
        (".spec.list.*.v", [1, 2, 3]),
        (".metadata.annotations.*", ["d", "y"]),
        ("..v", [1, 2, 3]),
        ('.spec.list[?(@.n=="y")].v', [2]),
        (".spec.list[?(@.n == 'y')].v", [2]),
        (".spec.list[?(@.v>1)].n", ["y", "z"]),
        (".spec.list[?(@.v<=1)].n", ["x"]),
        (".spec.list[?(@.v!=2)].n", ["x", "z"]),
        (".spec.list[?(@.t)].n", ["z"]),
        (".spec.list[?(@.t==true)].n", ["z"]),
        (".spec.list[?(@.v==2.0)].n", ["y"]),
        (".spec.list[?(@.n>1)].n", []),
        ('.spec.list[?(@.n=="]")].v', []),
        (".spec.zzz.b", []),
        (".spec.list[7]", []),
        (".spec.a[0]", []),
        (".spec.a.b", []),
        (".", [OBJ]),
        ("", [OBJ]),
    ],
)
def test_paths(path: str, found: list[Any]) -> None:
    assert compile_path(path)(OBJ) == found


@pytest.mark.parametrize(
    "path", [".a[", ".a[x]", ".a b", ".a[1:2:0]", ".a[?(@.b==c)]", ".a\\", ".a]", ".a[1:2:3:4]", "." * 5000, ".a" * 200]
)
def test_what_is_no_path_is_told(path: str) -> None:
    with pytest.raises(PathError):
        compile_path(path)


def test_what_is_found_is_bounded() -> None:
    wide: Any = [list(range(100)) for _ in range(1000)]
    assert len(compile_path("[*][*]")(wide)) == 10_000


@given(st.text(alphabet=".[]*'\"?(@)=<>:ab01-\\ ", max_size=20))
def test_any_text_is_a_path_or_an_error(text: str) -> None:
    try:
        found = compile_path(text)(OBJ)
    except PathError:
        return
    assert isinstance(found, list)
