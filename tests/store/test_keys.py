"""The sorted set of keys does what a sorted list does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashpot.runtime.store import keys
from dashpot.runtime.store.keys import Keys, after_prefix

TEXT = st.text(alphabet="ab/\ud7ff\ue000\U0010ffff", max_size=4)


@given(st.lists(st.tuples(st.booleans(), TEXT), max_size=80), TEXT, TEXT)
def test_like_a_sorted_list(changes: list[tuple[bool, str]], low: str, high: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "PIECE", 3)
        model: set[str] = {key for _, key in changes[:20]}
        found = Keys(model)
        for there, key in changes[20:]:
            (found.add if there else found.discard)(key)
            (model.add if there else model.discard)(key)
            assert len(found) == len(model)
        wanted = sorted(key for key in model if key >= low and (not high or key < high))
        assert list(found.between(low, high)) == wanted
        assert found.count(low, high) == len(wanted)


@given(TEXT, TEXT)
def test_the_end_of_a_prefix(prefix: str, key: str) -> None:
    end = after_prefix(prefix)
    inside = key >= prefix and (not end or key < end)
    assert inside == key.startswith(prefix)
    assert not end or (end.encode() > prefix.encode())


def test_order_is_that_of_bytes() -> None:
    words = ["\uffff", "\U00010000", "z", "é", "a/", "a"]
    assert list(Keys(words).between("", "")) == sorted(words, key=str.encode)
