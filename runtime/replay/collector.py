"""What the garbage collector does with one object, when the model says that it is due."""

from __future__ import annotations

from dashpot.model.objects.status import StatusError
from dashpot.runtime.client.rest import Delete
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.replay.stage import NAMESPACE, Stage

OWN = ("foregroundDeletion", "orphan")
"""Finalizers that are the collector's."""


async def collect(stage: Stage, obj: Obj) -> bool:
    """Takes its finalizer off what terminates, else deletes it; whether it did."""
    resource = obj.view.resource
    space = NAMESPACE if obj.view.namespaced else ""
    try:
        if obj.meta.get("deletionTimestamp"):
            left = [name for name in obj.meta.get("finalizers") or () if name not in OWN]
            await stage.client.update(resource, {**obj.json, "metadata": {**obj.meta, "finalizers": left}}, space)
        else:
            await stage.client.delete(resource, obj.name, space, how=Delete(propagation="Background", uid=obj.uid))
    except StatusError:
        return False
    return True


def due(world: dict[tuple[str, str], Obj]) -> list[Obj]:
    """The objects that the collector has something to do with."""
    uids = {obj.uid for obj in world.values()}
    owned = {ref["uid"] for obj in world.values() for ref in obj.meta.get("ownerReferences") or ()}
    found = []
    for obj in world.values():
        refs = obj.meta.get("ownerReferences") or ()
        terminating = bool(obj.meta.get("deletionTimestamp"))
        if refs and not terminating and not any(ref["uid"] in uids for ref in refs):
            found.append(obj)
        elif refs and not terminating and any(_foreground(world, ref["uid"]) for ref in refs):
            found.append(obj)
        elif terminating and "orphan" not in (obj.meta.get("finalizers") or ()):
            if "foregroundDeletion" in (obj.meta.get("finalizers") or ()) and obj.uid not in owned:
                found.append(obj)
    return found


def _foreground(world: dict[tuple[str, str], Obj], uid: str) -> bool:
    owner = next((obj for obj in world.values() if obj.uid == uid), None)
    return owner is not None and "foregroundDeletion" in (owner.meta.get("finalizers") or ())
