"""What tests of authentication and authorization stand on: a view in memory, a clock by hand, requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiohttp import web
from tests.api.views import DictView

from dashpot.model.objects.resource import Resource
from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import CREATE, Attributes
from dashpot.runtime.api.auth.authn import Authenticator
from dashpot.runtime.api.exchange import ANONYMOUS, Exchange, Info, Request, User

Object = dict[str, Any]
T = TypeVar("T")
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

PLURALS = {
    "ClusterRole": ("rbac.authorization.k8s.io", "clusterroles"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io", "clusterrolebindings"),
    "Role": ("rbac.authorization.k8s.io", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io", "rolebindings"),
    "Pod": ("", "pods"),
    "Node": ("", "nodes"),
    "Secret": ("", "secrets"),
    "ConfigMap": ("", "configmaps"),
    "ServiceAccount": ("", "serviceaccounts"),
    "PersistentVolume": ("", "persistentvolumes"),
    "PersistentVolumeClaim": ("", "persistentvolumeclaims"),
    "VolumeAttachment": ("storage.k8s.io", "volumeattachments"),
    "CSIDriver": ("storage.k8s.io", "csidrivers"),
    "ResourceSlice": ("resource.k8s.io", "resourceslices"),
}


class HandClock:
    """A clock that a test moves."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time


class MemoryView(DictView):
    """`late` holds objects that only `fresh` sees: the cache is behind the store."""

    def __init__(self, objects: Iterable[Object] = ()) -> None:
        super().__init__()
        self.revision = 0
        self.late: list[Object] = []
        for one in objects:
            self.put(one)

    def put(self, one: Object) -> None:
        """Adds or replaces."""
        kind = PLURALS[one["kind"]]
        meta = one["metadata"]
        self.revision += 1
        self.versions[kind] = self.revision
        self.objects[kind][meta.get("namespace", ""), meta["name"]] = one

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Takes out."""
        key = PLURALS[kind]
        self.revision += 1
        self.versions[key] = self.revision
        del self.objects[key][namespace, name]

    async def fresh(self, group: str, plural: str, namespace: str, name: str) -> Object | None:
        """One object; the view has caught up."""
        late, self.late = self.late, []
        for one in late:
            self.put(one)
        return self.get(group, plural, namespace, name)


def obj(kind: str, name: str, namespace: str = "", *, uid: str = "", **more: Any) -> Object:
    """An object; `meta` is merged into its metadata."""
    meta: Object = {"name": name, **more.pop("meta", {})}
    if namespace:
        meta["namespace"] = namespace
    if uid:
        meta["uid"] = uid
    return {"kind": kind, "metadata": meta, **more}


def role(name: str, *rules: Object, namespace: str = "", **more: Any) -> Object:
    return obj("Role" if namespace else "ClusterRole", name, namespace, rules=list(rules), **more)


def rule(verbs: str, groups: str, resources: str, names: str = "") -> Object:
    """`rule("get list", "core apps", "pods")`."""
    found: Object = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
    }
    if names:
        found["resourceNames"] = names.split()
    return found


def bind(name: str, to: str, *subjects: str, namespace: str = "") -> Object:
    """`bind("b", "ClusterRole/view", "User/ann", "Group/g", "ServiceAccount/ns/name", namespace="ns")`."""
    kind, _, target = to.partition("/")
    found: list[Object] = []
    for subject in subjects:
        which, _, rest = subject.partition("/")
        if which == "ServiceAccount":
            home, _, rest = rest.partition("/")
            found.append({"kind": which, "namespace": home, "name": rest})
        else:
            found.append({"kind": which, "apiGroup": "rbac.authorization.k8s.io", "name": rest})
    made = obj("RoleBinding" if namespace else "ClusterRoleBinding", name, namespace)
    made["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": target}
    made["subjects"] = found
    return made


async def _nothing() -> bytes:
    return b""


def request(headers: Mapping[str, str] | None = None, **more: Any) -> Request:
    return Request("GET", "/api/v1/pods", (), headers or {}, _nothing, **more)


def exchange(user: User = ANONYMOUS, *, headers: Mapping[str, str] | None = None, **info: Any) -> Exchange:
    """An exchange; keywords of Request (`certificate`, `user_given`) or of Info."""
    more = {key: info.pop(key) for key in ("certificate",) if key in info}
    if "user_given" in info:
        more["user"] = info.pop("user_given")
    base: Object = {"resource_request": True, "path": "/api/v1/pods", "verb": "list", "version": "v1"}
    base["resource"] = "pods"
    if info.get("resource_request") is False:
        base.pop("resource")
    return Exchange(request(headers, **more), Info(**{**base, **info}), 0.0, user)


def write(
    user: User,
    plural: str,
    new: Object | None,
    old: Object | None = None,
    *,
    group: str = "",
    operation: str = CREATE,
    subresource: str = "",
    namespace: str = "",
    name: str = "",
) -> Attributes:
    """A write as admission sees it."""
    resource = Resource(group, "v1", "Kind", plural, plural, bool(namespace), storage_group=group, storage_version="v1")
    if operation != CREATE and not name:
        name = (new or old or {})["metadata"]["name"]
    return Attributes(operation, resource, subresource, namespace, name, new, old, user, exchange(user))


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(main())


async def refused(what: Coroutine[Any, Any, Any]) -> StatusError:
    """The failure of a call that must fail."""
    try:
        await what
    except StatusError as error:
        return error
    raise AssertionError("nothing was refused")


@asynccontextmanager
async def serving(answer: Answer, tls: Any = None) -> AsyncIterator[str]:
    """A server on loopback that answers everything with one function."""
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.01)  # type: ignore[arg-type]
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        await runner.cleanup()


async def enter(authenticator: Authenticator, token: str) -> User | None:
    """Who is let in with a token; None for 401."""
    asked = exchange(headers={"authorization": f"Bearer {token}"})
    try:
        await authenticator.gate(asked)
    except StatusError as error:
        assert error.code == 401
        return None
    return asked.user
