"""What must be so before actors start: their kinds are served, and they may do what their bodies can do."""

from __future__ import annotations

from collections.abc import Iterable

from dashpot.model.objects.resource import Resource
from dashpot.model.program import Program
from dashpot.runtime.client.discovery import NoMatch
from dashpot.runtime.client.rest import Client
from dashpot.runtime.controller.manifold import Manifold
from dashpot.runtime.controller.uses import Actor, Right, caches_of
from dashpot.runtime.controller.views import View, Views

REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class NotServed(Exception):
    """Kinds that the server does not serve: (apiVersion, kind) of each."""

    def __init__(self, kinds: list[tuple[str, str]]) -> None:
        named = ", ".join(f"{kind} ({version})" for version, kind in kinds)
        super().__init__(f"the server does not serve {named}")
        self.kinds = kinds


class NotAllowed(Exception):
    """Rights that are missing."""

    def __init__(self, rights: list[Right], namespace: str) -> None:
        where = f" in namespace {namespace}" if namespace else ""
        super().__init__(f"not allowed{where}: {', '.join(map(str, rights))}")
        self.rights = rights


async def served(program: Program, actors: Iterable[Actor], views: Views, client: Client) -> list[Resource]:
    """The resources of all kinds that the actors name, as the server has them.

    NotServed, StatusError, TransportError.
    """
    wanted: set[str] = set()
    for actor in actors:
        wanted |= caches_of(actor, program) | kinds_called(actor)
    found, missing = [], []
    # a definition may be newer than what the client has read
    await client.discovery.resources(fresh=True)
    for kind in sorted(kind for kind in wanted if not _anywhere(views[kind])):
        version = views[kind].api_version
        try:
            found.append(await client.discovery.by_kind(version, kind))
        except NoMatch:
            missing.append((version, kind))
    if missing:
        raise NotServed(missing)
    return found


def _anywhere(view: View) -> bool:
    """Whether a kind has no resource of its own."""
    return isinstance(view, Manifold) or view.declared.answers


def kinds_called(actor: Actor) -> set[str]:
    """The kinds that an actor calls upon."""
    from dashpot.model.automaton import Call
    from dashpot.runtime.controller.uses import automata

    return {node.kind for body in automata(actor) for node in body.nodes if isinstance(node, Call)}


async def allowed(rights: Iterable[Right], client: Client, namespace: str = "") -> None:
    """Asks the server about each right. NotAllowed, StatusError, TransportError."""
    missing = []
    for right in sorted(rights):
        attributes = {"verb": right.verb, "group": right.group, "resource": right.resource}
        if right.subresource:
            attributes["subresource"] = right.subresource
        if namespace:
            attributes["namespace"] = namespace
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = await client.call("POST", REVIEW, review)
        if not (answer.get("status") or {}).get("allowed"):
            missing.append(right)
    if missing:
        raise NotAllowed(missing, namespace)
