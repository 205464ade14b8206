"""What a kubelet may read, and what it may write."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.auth_kit import HandClock, MemoryView, bind, exchange, obj, refused, role, rule, run, write

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import CREATE, DELETE, UPDATE, Attributes
from dashpot.runtime.api.auth.attributes import AuthzAttributes
from dashpot.runtime.api.auth.authz import Authorizer, AuthzConfig
from dashpot.runtime.api.auth.bootstrap import bootstrap_objects
from dashpot.runtime.api.auth.restriction import NodeRestriction, restrict
from dashpot.runtime.api.exchange import User

Object = dict[str, Any]
NODE = User("system:node:n1", ("system:nodes", "system:authenticated"))
NAMELESS = User("system:node:", ("system:nodes", "system:authenticated"))
MIRROR = {"kubernetes.io/config.mirror": "x"}

CONTAINER = {
    "name": "c",
    "env": [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "k"}}},
    ],
    "envFrom": [{"secretRef": {"name": "from"}}, {"configMapRef": {"name": "from"}}],
}
VOLUMES = [
    {"name": "s", "secret": {"secretName": "volume"}},
    {"name": "c", "configMap": {"name": "volume"}},
    {"name": "p", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "projected"}}]}},
    {"name": "t", "projected": {"sources": [{"serviceAccountToken": {}}, {"serviceAccountToken": {"audience": "v"}}]}},
    {"name": "v", "persistentVolumeClaim": {"claimName": "claim"}},
    {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
    {"name": "d", "csi": {"driver": "x", "nodePublishSecretRef": {"name": "inline"}}},
]


def pod(name: str, node: str, **spec: Any) -> Object:
    meta = spec.pop("meta", {})
    full = {"nodeName": node, "serviceAccountName": "sa", **spec}
    return obj("Pod", name, "a", uid=f"uid-{name}", spec=full, meta=meta)


MINE = pod(
    "mine",
    "n1",
    containers=[CONTAINER],
    initContainers=[{"name": "i", "envFrom": [{"secretRef": {"name": "init"}}]}],
    volumes=VOLUMES,
    imagePullSecrets=[{"name": "pull"}],
    resourceClaims=[{"name": "r", "resourceClaimName": "device"}, {"name": "t", "resourceClaimTemplateName": "x"}],
)
MINE["status"] = {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "mine-t"}]}
THEIRS = pod("theirs", "n2", volumes=[{"name": "s", "secret": {"secretName": "foreign"}}], serviceAccountName="other")
UNBOUND = pod("unbound", "", volumes=[{"name": "s", "secret": {"secretName": "waiting"}}])
STATIC = pod("static", "n1", volumes=[{"name": "s", "secret": {"secretName": "stolen"}}], meta={"annotations": MIRROR})


def world() -> MemoryView:
    return MemoryView(
        [
            *bootstrap_objects(),
            obj("Node", "n1", uid="uid-n1"),
            MINE,
            THEIRS,
            UNBOUND,
            STATIC,
            obj(
                "PersistentVolume",
                "volume",
                spec={
                    "claimRef": {"namespace": "a", "name": "claim"},
                    "csi": {
                        "driver": "store.example.com",
                        "nodeStageSecretRef": {"namespace": "vault", "name": "stage"},
                    },
                },
            ),
            obj("PersistentVolume", "foreign", spec={"claimRef": {"namespace": "a", "name": "nobody"}}),
            obj("PersistentVolumeClaim", "claim", "a", spec={"volumeName": "volume"}),
            obj("CSIDriver", "store.example.com", spec={"tokenRequests": [{"audience": "store"}]}),
            obj("VolumeAttachment", "va1", spec={"nodeName": "n1"}),
            obj("VolumeAttachment", "va2", spec={"nodeName": "n2"}),
            obj("ResourceSlice", "slice1", spec={"nodeName": "n1"}),
            obj("ResourceSlice", "slice2", spec={"nodeName": "n2"}),
        ]
    )


VIEW = world()
WORLD = Authorizer(AuthzConfig(), VIEW, HandClock())

# verb resource[.group][/subresource] namespace name [selector] → yes or no
TABLE = """
get    secrets           a     env        - yes
get    secrets           a     from       - yes
get    secrets           a     init       - yes
get    secrets           a     volume     - yes
get    secrets           a     projected  - yes
get    secrets           a     pull       - yes
get    secrets           a     inline     - yes
list   secrets           a     env        - yes
watch  secrets           a     env        - yes
get    secrets           vault stage      - yes
get    secrets           a     foreign    - no
get    secrets           a     waiting    - no
get    secrets           a     stolen     - no
get    secrets           b     env        - no
get    secrets           vault other      - no
list   secrets           a     -          - no
list   secrets           -     -          - no
watch  secrets           -     -          - no
create secrets           a     -          - no
update secrets           a     env        - no
delete secrets           a     env        - no
get    configmaps        a     env        - yes
get    configmaps        a     from       - yes
get    configmaps        a     volume     - yes
get    configmaps        a     projected  - yes
get    configmaps        a     other      - no
list   configmaps        a     -          - no
patch  configmaps        a     env        - no
get    persistentvolumeclaims a claim     - yes
get    persistentvolumeclaims a mine-e    - yes
get    persistentvolumeclaims a nobody    - no
list   persistentvolumeclaims a -         - no
patch  persistentvolumeclaims/status a claim - yes
update persistentvolumeclaims/status a nobody - no
update persistentvolumeclaims a claim     - no
get    persistentvolumes -     volume     - yes
get    persistentvolumes -     foreign    - no
list   persistentvolumes -     -          - no
create serviceaccounts/token a sa         - yes
create serviceaccounts/token a other      - no
get    serviceaccounts   a     sa         - no
create serviceaccounts   a     -          - no
get    nodes             -     n1         - yes
watch  nodes             -     n1         - yes
get    nodes             -     n2         - no
list   nodes             -     -          - no
create nodes             -     -          - yes
update nodes/status      -     n1         - yes
delete nodes             -     n1         - no
get    pods              a     mine       - yes
get    pods              a     static     - yes
get    pods              a     theirs     - no
get    pods              a     unbound    - no
list   pods              -     -          spec.nodeName=n1 yes
watch  pods              -     -          status.phase!=Failed,spec.nodeName==n1 yes
list   pods              -     -          spec.nodeName=n2 no
list   pods              -     -          spec.nodeName!=n1 no
list   pods              -     -          - no
create pods              a     -          - yes
delete pods              a     mine       - yes
patch  pods/status       a     mine       - yes
create pods/eviction     a     mine       - yes
update pods              a     mine       - no
create pods/exec         a     mine       - no
create pods/binding      a     mine       - no
get    leases.coordination.k8s.io kube-node-lease n1 - yes
update leases.coordination.k8s.io kube-node-lease n1 - yes
create leases.coordination.k8s.io kube-node-lease -  - yes
update leases.coordination.k8s.io kube-node-lease n2 - no
update leases.coordination.k8s.io kube-system n1 - no
list   leases.coordination.k8s.io kube-node-lease - - no
get    csinodes.storage.k8s.io -  n1      - yes
get    csinodes.storage.k8s.io -  n2      - no
get    volumeattachments.storage.k8s.io - va1 - yes
get    volumeattachments.storage.k8s.io - va2 - no
get    resourceclaims.resource.k8s.io a device - yes
get    resourceclaims.resource.k8s.io a mine-t - yes
get    resourceclaims.resource.k8s.io a other - no
create resourceslices.resource.k8s.io - - - yes
update resourceslices.resource.k8s.io - slice1 - yes
update resourceslices.resource.k8s.io - slice2 - no
list   resourceslices.resource.k8s.io - - spec.nodeName=n1 yes
list   resourceslices.resource.k8s.io - - - no
list   services          -     -          - yes
create events            a     -          - yes
get    runtimeclasses.node.k8s.io - rc    - yes
create certificatesigningrequests.certificates.k8s.io - - - yes
create subjectaccessreviews.authorization.k8s.io - - - yes
get    deployments.apps  a     d          - no
create clusterrolebindings.rbac.authorization.k8s.io - - - no
impersonate users        -     root       - no
"""
CASES = TABLE.strip().splitlines()


def ask(line: str, user: User = NODE) -> tuple[AuthzAttributes, bool]:
    verb, what, namespace, name, selector, answer = line.split()
    what, _, subresource = what.partition("/")
    resource, _, group = what.partition(".")
    name, selector = ("" if one == "-" else one for one in (name, selector))
    return (
        AuthzAttributes(
            user, verb, group, "v1", resource, subresource, namespace.strip("-"), name, field_selector=selector
        ),
        answer == "yes",
    )


@pytest.mark.parametrize("line", CASES, ids=lambda line: "-".join(line.split()))
def test_a_kubelet_asks(line: str) -> None:
    attributes, allow = ask(line)
    assert WORLD.decide(attributes).allow is allow


def test_a_foreign_secret_is_refused_in_kubernetes_words() -> None:
    asked = exchange(NODE, verb="get", resource="secrets", namespace="a", name="foreign")
    error = run(lambda: refused(WORLD.gate(asked)))
    assert error.message == (
        'secrets "foreign" is forbidden: User "system:node:n1" cannot get resource "secrets" in API group "" in the '
        "namespace \"a\": no relationship found between node 'n1' and this object"
    )


def test_what_a_node_may_read_follows_its_pods() -> None:
    view = world()
    judge = Authorizer(AuthzConfig(), view, HandClock())
    foreign, _ = ask("get secrets a foreign - no")
    waiting, _ = ask("get secrets a waiting - no")
    own, _ = ask("get secrets a env - yes")
    stage, _ = ask("get secrets vault stage - yes")
    assert [judge.decide(one).allow for one in (foreign, waiting, own, stage)] == [False, False, True, True]
    view.put({**UNBOUND, "spec": {**UNBOUND["spec"], "nodeName": "n1"}})
    assert judge.decide(waiting).allow
    view.remove("Pod", "a", "mine")
    assert [judge.decide(one).allow for one in (own, stage)] == [False, False]


def test_a_user_who_only_looks_like_a_node_is_none() -> None:
    attributes, _ = ask("get secrets a env - no", User("system:node:n1", ("system:authenticated",)))
    assert not WORLD.decide(attributes).allow
    attributes, _ = ask("get secrets a env - no", User("n1", ("system:nodes",)))
    assert not WORLD.decide(attributes).allow
    attributes, _ = ask("get secrets a env - no", NAMELESS)
    assert WORLD.decide(attributes).reason == 'unknown node for user "system:node:"'


def owned(name: str = "m", **more: Any) -> Object:
    """A mirror pod as a kubelet writes it."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "uid-n1", "controller": True}
    made = obj("Pod", name, "a", meta={"annotations": MIRROR, "ownerReferences": [owner]}, spec={"nodeName": "n1"})
    made["spec"].update(more)
    return made


def changed(source: Object, **meta: Any) -> Object:
    return {**source, "metadata": {**source["metadata"], **meta}}


def owner(**more: Any) -> list[Object]:
    return [{**owned()["metadata"]["ownerReferences"][0], **more}]


def node(**more: Any) -> Object:
    return obj("Node", more.pop("name", "n1"), meta=more.pop("meta", {}), spec=more.pop("spec", {}), **more)


def labelled(*labels: str) -> Object:
    return node(meta={"labels": {label: "v" for label in labels}})


def claim(size: str, **meta: Any) -> Object:
    return obj("PersistentVolumeClaim", "claim", "a", spec={}, status={"capacity": {"storage": size}}, meta=meta)


def token(**ref: Any) -> Object:
    return {"kind": "TokenRequest", "spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", **ref}}}


def on_pods(new: Object | None, old: Object | None = None, **more: Any) -> Attributes:
    return write(NODE, "pods", new, old, namespace="a", **more)


def on_nodes(new: Object | None, old: Object | None = None, **more: Any) -> Attributes:
    return write(NODE, "nodes", new, old, **more)


def on_lease(name: str, namespace: str = "kube-node-lease", operation: str = CREATE) -> Attributes:
    lease = {"kind": "Lease", "metadata": {"name": name}}
    return write(NODE, "leases", lease, lease, group="coordination.k8s.io", namespace=namespace, operation=operation)


def status_of(one: Object, **more: Any) -> Object:
    return {**one, "status": {"phase": "Running", **more}}


def on_token(request: Object, *audiences: str) -> Attributes:
    if audiences:
        request["spec"]["audiences"] = list(audiences)
    return write(NODE, "serviceaccounts", request, namespace="a", name="sa", subresource="token")


ALLOWED = {
    "mirror pod": on_pods(owned()),
    "own pod's status": on_pods(status_of(MINE, **MINE["status"]), MINE, subresource="status", operation=UPDATE),
    "own pod's end": on_pods(None, MINE, operation=DELETE),
    "own pod's eviction": on_pods({"metadata": {"name": "mine"}}, name="mine", subresource="eviction"),
    "its node": on_nodes(labelled("kubernetes.io/hostname", "topology.kubernetes.io/zone", "example.com/x")),
    "kubelet labels": on_nodes(labelled("kubelet.kubernetes.io/x", "node.kubernetes.io/y", "z")),
    "its node's status": on_nodes(node(), node(), operation=UPDATE, subresource="status"),
    "its lease": on_lease("n1"),
    "its lease again": on_lease("n1", operation=UPDATE),
    "the size of a claim": write(
        NODE,
        "persistentvolumeclaims",
        claim("2Gi"),
        claim("1Gi", resourceVersion="1"),
        namespace="a",
        subresource="status",
        operation=UPDATE,
    ),
    "a token for its pod": on_token(token(name="mine", uid="uid-mine")),
    "a token for an audience in a volume": on_token(token(name="mine", uid="uid-mine"), "v"),
    "a token for an audience of a driver": on_token(token(name="mine", uid="uid-mine"), "store"),
    "an event": write(NODE, "events", {"metadata": {"name": "e"}}, namespace="a"),
    "another user": write(User("ann"), "nodes", labelled("node-restriction.kubernetes.io/x")),
}


@pytest.mark.parametrize("what", ALLOWED)
def test_a_kubelet_writes_what_is_its_own(what: str) -> None:
    restrict(ALLOWED[what], VIEW)


REFUSED = [
    (
        on_pods(changed(owned(), annotations={})),
        'pod does not have "kubernetes.io/config.mirror" annotation, node "n1"',
    ),
    (on_pods(owned(nodeName="n2")), "can only create pods with spec.nodeName set to itself"),
    (on_pods(owned(serviceAccountName="sa")), "can not create pods that reference a service account"),
    (on_pods(owned(volumes=[{"secret": {"secretName": "s"}}])), "can not create pods that reference secrets"),
    (on_pods(owned(imagePullSecrets=[{"name": "s"}])), "can not create pods that reference secrets"),
    (on_pods(owned(containers=[{"envFrom": [{"configMapRef": {"name": "c"}}]}])), "that reference configmaps"),
    (
        on_pods(owned(volumes=[{"persistentVolumeClaim": {"claimName": "c"}}])),
        "can not create pods that reference persistentvolumeclaims",
    ),
    (
        on_pods(owned(volumes=[{"projected": {"sources": [{"clusterTrustBundle": {"name": "b"}}]}}])),
        "can not create pods that reference clustertrustbundles",
    ),
    (on_pods(changed(owned(), ownerReferences=[])), "can only create pods with an owner reference set to itself"),
    (on_pods(changed(owned(), ownerReferences=owner(name="n2"))), "with an owner reference set to itself"),
    (on_pods(changed(owned(), ownerReferences=owner() * 2)), "with a single owner reference set to itself"),
    (on_pods(changed(owned(), ownerReferences=owner(controller=False))), "with a controller owner reference"),
    (on_pods(changed(owned(), ownerReferences=owner(blockOwnerDeletion=True))), "must not set blockOwnerDeletion"),
    (on_pods(changed(owned(), ownerReferences=owner(uid="u"))), "node n1 UID mismatch: expected u got uid-n1"),
    (
        on_pods(MINE, MINE, operation=UPDATE),
        'unexpected operation "UPDATE", node "n1" can only create and delete mirror',
    ),
    (on_pods(None, THEIRS, operation=DELETE), 'node "n1" can only delete pods with spec.nodeName set to itself'),
    (on_pods(MINE, subresource="exec", name="mine"), "unexpected pod subresource \"exec\", only 'status' and"),
    (
        on_pods(status_of(THEIRS), THEIRS, subresource="status", operation=UPDATE),
        'node "n1" can only update pod status for pods with spec.nodeName set to itself',
    ),
    (
        on_pods(changed(MINE, labels={"a": "b"}), MINE, subresource="status", operation=UPDATE),
        'node "n1" cannot update labels through pod status',
    ),
    (
        on_pods(status_of(MINE), MINE, subresource="status", operation=UPDATE),
        'node "n1" cannot update resource claim statues',
    ),
    (
        on_pods({"metadata": {"name": "theirs"}}, name="theirs", subresource="eviction"),
        "node n1 can only evict pods with spec.nodeName set to itself",
    ),
    (on_nodes(node(name="n2")), 'nodes is forbidden: node "n1" is not allowed to modify node "n2"'),
    (on_nodes(None, node(name="n2"), operation=DELETE), 'nodes "n2" is forbidden: node "n1" is not allowed to modify'),
    (
        on_nodes(labelled("node-restriction.kubernetes.io/x", "kubernetes.io/role")),
        'node "n1" is not allowed to set the following labels: kubernetes.io/role, node-restriction.kubernetes.io/x',
    ),
    (
        on_nodes(labelled(), labelled("sub.node-restriction.kubernetes.io/x"), operation=UPDATE),
        "is not allowed to modify labels: sub.node-restriction.kubernetes.io/x",
    ),
    (on_nodes(labelled("x.k8s.io/y"), node(), operation=UPDATE), "is not allowed to modify labels: x.k8s.io/y"),
    (on_nodes(node(spec={"taints": [{"key": "k"}]}), node(), operation=UPDATE), "is not allowed to modify taints"),
    (on_nodes(node(spec={"configSource": {}})), "with a non-nil configSource"),
    (on_nodes(node(spec={"configSource": {"a": 1}}), node(), operation=UPDATE), "to a new non-nil configSource"),
    (on_lease("n2"), "can only access node lease with the same name as the requesting node"),
    (on_lease("n2", operation=UPDATE), "can only access node lease with the same name as the requesting node"),
    (on_lease("n1", "kube-system"), 'can only access leases in the "kube-node-lease" system namespace'),
    (
        write(NODE, "csinodes", {"metadata": {"name": "n2"}}, group="storage.k8s.io"),
        "can only access CSINode with the same name as the requesting node",
    ),
    (
        write(NODE, "resourceslices", {"metadata": {"name": "s"}, "spec": {"nodeName": "n2"}}, group="resource.k8s.io"),
        "can only create ResourceSlice with the same NodeName as the requesting node",
    ),
    (
        write(NODE, "persistentvolumeclaims", claim("1Gi"), claim("1Gi"), namespace="a", operation=UPDATE),
        "may only update PVC status",
    ),
    (
        write(
            NODE,
            "persistentvolumeclaims",
            claim("1Gi", labels={"a": "b"}),
            claim("1Gi"),
            namespace="a",
            subresource="status",
            operation=UPDATE,
        ),
        'node "n1" is not allowed to update fields other than status.capacity and status.conditions',
    ),
    (on_token({"spec": {}}), "node requested token not bound to a pod"),
    (on_token(token(kind="Secret", name="s")), "node requested token not bound to a pod"),
    (on_token(token(name="mine")), "node requested token with a pod binding without a uid"),
    (on_token(token(name="mine", uid="old")), "the UID in the bound object reference (old) does not match"),
    (on_token(token(name="theirs", uid="uid-theirs")), "node requested token bound to a pod scheduled on a different"),
    (
        on_token(token(name="mine", uid="uid-mine"), "vault"),
        'audience "vault" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this',
    ),
    (on_token(token(name="mine", uid="uid-mine"), "v", "store"), "node may only request 0 or 1 audiences"),
    (write(NAMELESS, "pods", owned(), namespace="a"), 'could not determine node from user "system:node:"'),
    (
        write(
            NODE,
            "certificatesigningrequests",
            {"metadata": {"name": "c"}, "spec": {"signerName": "kubernetes.io/kubelet-serving", "request": "eA=="}},
            group="certificates.k8s.io",
        ),
        "unable to parse csr",
    ),
]


@pytest.mark.parametrize(("attempt", "words"), REFUSED, ids=[words[:60] for _, words in REFUSED])
def test_a_kubelet_writes_nothing_else(attempt: Attributes, words: str) -> None:
    with pytest.raises(StatusError) as caught:
        restrict(attempt, VIEW)
    assert caught.value.code == 403
    assert words in caught.value.message


def test_a_token_for_a_pod_that_is_not_there() -> None:
    with pytest.raises(StatusError) as caught:
        restrict(on_token(token(name="gone", uid="u")), VIEW)
    assert (caught.value.code, caught.value.message) == (404, 'pods "gone" not found')


def test_the_plugin_refuses_before_anything_is_changed() -> None:
    plugin = NodeRestriction(VIEW)
    error = run(lambda: refused(plugin.mutate(on_nodes(node(name="n2")))))
    assert error.reason == "Forbidden"


def test_an_audience_that_rbac_grants() -> None:
    grant = role("registry", rule("request-serviceaccounts-token-audience", "core", "registry"))
    view = world()
    view.put(grant)
    view.put(bind("registry", "ClusterRole/registry", "Group/system:nodes"))
    judge = Authorizer(AuthzConfig(), view, HandClock())
    restrict(on_token(token(name="mine", uid="uid-mine"), "registry"), view, judge.decide)
    with pytest.raises(StatusError):
        restrict(on_token(token(name="mine", uid="uid-mine"), "vault"), view, judge.decide)
