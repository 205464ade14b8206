"""One state of a run in full: the store, what each cache shows of it, what is on its way, what actors keep."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from dashpot.cli import console

if TYPE_CHECKING:
    from dashpot.checker.runs import Run
    from dashpot.checker.scene import Item, Scene, Undelivered


def moment(run: Run, number: int) -> list[str]:
    """Lines that show the state after step `number` (0: the start)."""
    scene = run.story.scenes[number]
    fixed = {c.name for c in run.columns if c.lo == c.hi}
    head = f"after step {number}: {run.labels[number - 1]}" if number else "at the start"
    lines = [console.paint(head, "bold"), "store"]
    lines += [f"  {_item(item, fixed)}" for item in scene.truth] or ["  (empty)"]
    for actor in sorted({*scene.caches, *scene.pending, *scene.private}):
        lines += _actor(scene, actor, fixed)
    return lines


def _actor(scene: Scene, actor: str, fixed: Set[str]) -> list[str]:
    lines = [f"{actor}" if actor else "world"]
    truth = {item.key: item for item in scene.truth}
    if actor in scene.caches:
        shown = scene.caches[actor]
        different = [i for i in shown if truth.get(i.key) is None or _differs(i, truth[i.key])]
        unseen = [i for i in scene.truth if i.kind in {c.kind for c in shown} and i.key not in {c.key for c in shown}]
        lines += [f"  cache  {_item(item, fixed)}" for item in different]
        lines += [f"  cache  has no {item.title}" for item in unseen]
        if not different and not unseen:
            lines.append("  cache  as the store")
    known = {item.key: item for item in scene.caches.get(actor, ())}
    lines += [f"  on its way  {_change(change, known.get(change.key))}" for change in scene.pending.get(actor, ())]
    lines += [f"  {name} = {text}" for name, text in scene.private.get(actor, {}).items()]
    return lines


def _change(change: Undelivered, cached: Item | None) -> str:
    """A change that is under way: what the cache will then show that it does not show now."""
    from dashpot.checker.scene import ZEROS

    if change.gone:
        return f"{change.title} is gone"
    if cached is None:
        return (
            f"+ {change.title}  {_fields({p: t for p, t in change.fields.items() if t.lower() not in ZEROS})}".rstrip()
        )
    return f"{change.title}  {_fields({p: t for p, t in change.fields.items() if cached.fields.get(p) != t})}".rstrip()


def _differs(cached: Item, true: Item) -> bool:
    return any(true.fields.get(path, text) != text for path, text in cached.fields.items())


def _item(item: Item, fixed: Set[str]) -> str:
    """An object with the fields that are not the same in every state of this world."""
    slot = f"[{item.slot}]" if item.slot >= 0 else ""
    fields = _fields({p: t for p, t in item.fields.items() if f"store.{item.kind}{slot}.{p}" not in fixed})
    return f"{item.title}  {fields}" if fields else item.title


def _fields(fields: dict[str, str]) -> str:
    return ", ".join(f"{path} = {text}" for path, text in fields.items())
