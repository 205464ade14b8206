"""An API call of a pass, as it is about to be made."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from dashpot.model.span import NOWHERE, Span
from dashpot.runtime.controller.manifold import Reference
from dashpot.runtime.controller.obj import Obj
from dashpot.runtime.controller.views import View


@frozen(eq=False)
class ApiRequest:
    """One call.

    verb         get list create update patch apply delete evict bind
    namespace    "" for cluster-wide kinds; for a list also: all
    name         "" for create; for a list the one name that is wanted, or ""
    subresource  "status" or ""
    body         what is sent: an object, a patch, a node's name (bind)
    patch        merge, strategic or json
    force        apply: fields are taken over
    uid, version  preconditions of a delete
    propagation  Foreground, Background, Orphan or ""; grace in seconds
    reference    get: which object of which kind, where the kind of the spec stands for many
    target       the object that the pass holds
    node, span   where in the automaton and in the text
    """

    verb: str
    view: View
    namespace: str
    name: str
    subresource: str = ""
    body: Any = None
    patch: str = ""
    force: bool = False
    uid: str = ""
    version: str = ""
    propagation: str = ""
    grace: int | None = None
    reference: Reference | None = None
    target: Obj | None = None
    node: int = 0
    span: Span = NOWHERE

    @property
    def kind(self) -> str:
        """The kind called upon."""
        return self.view.kind

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        return self.verb not in ("get", "list")
