"""Who may do what, asked of a running server by those who want to do it: with certificates and tokens, over TLS.

All writes are dry runs: a row leaves nothing behind for the next one.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.api.auth_kit import bind, obj, role, rule
from tests.clients.people import People
from tests.clients.running import Running

Object = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"
WRITE = "create update patch get list"
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
CERTIFICATES = {
    "ann": ("ann",),
    "bob": ("bob",),
    "cy": ("cy", "team"),
    "eve": ("eve",),
    "binder": ("binder",),
    "named": ("named",),
    "escalator": ("escalator",),
    "actor": ("actor",),
    "approver": ("approver",),
    "n1": ("system:node:n1", "system:nodes"),
    "n2": ("system:node:n2", "system:nodes"),
    "posing": ("system:node:n1",),
}
"""Common name, and organizations."""
AGGREGATED = {f"{RBAC}/aggregate-to-edit": "true"}
ROLES = [
    role("writes-roles", rule(WRITE, RBAC, "roles rolebindings clusterroles clusterrolebindings")),
    role("pods", rule("get list", "core", "pods"), {"verbs": ["get"], "nonResourceURLs": ["/metrics/*"]}),
    role("one-secret", rule("get", "core", "secrets", "db")),
    role("may-bind", rule("bind", RBAC, "clusterroles")),
    role("may-bind-view", rule("bind", RBAC, "clusterroles", "view")),
    role("may-escalate", rule("escalate", RBAC, "clusterroles")),
    role("acts", rule("impersonate", "core", "users", "bob"), rule("impersonate", "core", "groups", "team")),
    role("approves", rule("get list update patch", "certificates.k8s.io",
         "certificatesigningrequests certificatesigningrequests/approval"),
         rule("approve", "certificates.k8s.io", "signers", CLIENT)),
    role("widgets", rule("*", "example.com", "*"), meta={"labels": AGGREGATED}),
]  # fmt: skip
BINDINGS = [
    bind("writes-roles", "ClusterRole/writes-roles", "User/eve", "User/binder", "User/named", "User/escalator"),
    bind("eve-pods", "ClusterRole/pods", "User/eve"),
    bind("may-bind", "ClusterRole/may-bind", "User/binder"),
    bind("may-bind-view", "ClusterRole/may-bind-view", "User/named"),
    bind("may-escalate", "ClusterRole/may-escalate", "User/escalator"),
    bind("acts", "ClusterRole/acts", "User/actor"),
    bind("approves", "ClusterRole/approves", "User/approver"),
]
LOCAL = [
    bind("ann", "ClusterRole/admin", "User/ann", namespace="a"),
    bind("bob", "ClusterRole/edit", "User/bob", namespace="a"),
    bind("team", "ClusterRole/view", "Group/team", namespace="a"),
    bind("eve", "ClusterRole/one-secret", "User/eve", namespace="a"),
    bind("robot", "ClusterRole/pods", "ServiceAccount/a/robot", namespace="a"),
]
POD_REF = {"apiVersion": "v1", "kind": "Pod"}


def pod(name: str, node: str, own: str) -> Object:
    """A pod on a node, with a Secret, a ConfigMap and a claim of its own."""
    return obj("Pod", name, "a", spec={
        "nodeName": node,
        "serviceAccountName": "robot" if own == "own" else "other",
        "containers": [{"name": "c", "image": "x", "envFrom": [{"secretRef": {"name": own}}]}],
        "volumes": [
            {"name": "m", "configMap": {"name": own}},
            {"name": "v", "persistentVolumeClaim": {"claimName": own}},
        ],
    })  # fmt: skip


def signing(signer: str, user: str, *groups: str) -> Object:
    """A CertificateSigningRequest of that name's signer."""
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"signerName": signer, "request": text, "usages": ["digital signature", "client auth"]}
    return obj("CertificateSigningRequest", signer.rpartition("-")[2], spec=spec)


def review(resource: str, verb: str, user: str) -> Object:
    """A SubjectAccessReview about somebody."""
    return {"spec": {"user": user, "resourceAttributes": {"verb": verb, "resource": resource, "namespace": "a"}}}


APPROVED = {"type": "Approved", "status": "True", "reason": "x", "message": "x"}
BODIES: dict[str, Object] = {
    "pod": obj("Pod", "new", spec={"containers": [{"name": "c", "image": "x"}]}),
    "cm": obj("ConfigMap", "new"),
    "label": {"metadata": {"labels": {"x": "y"}}},
    "ns": obj("Namespace", "new"),
    "holds": role("new", rule("get", "core", "pods")),
    "holds-url": role("new", {"verbs": ["get"], "nonResourceURLs": ["/metrics/cpu"]}),
    "wider": role("new", rule("get list watch", "core", "pods")),
    "anything": role("new", rule("*", "*", "*")),
    "verbs": role("new", rule("escalate bind impersonate", "*", "*")),
    "urls": role("new", {"verbs": ["get"], "nonResourceURLs": ["*"]}),
    "secrets": role("new", rule("get", "core", "secrets")),
    "widen": {"rules": [rule("*", "*", "*")]},
    "relabel": {"metadata": {"labels": AGGREGATED}},
    "aggregates": {**role("new"), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}},
    "smuggled": role("new", rule("*", "*", "*"), meta={"labels": AGGREGATED}),
    "local-secrets": role("new", rule("get list", "core", "secrets")),
    "local-users": role("new", rule("impersonate", "core", "users")),
    "to-admin": bind("new", "ClusterRole/cluster-admin", "User/eve"),
    "to-node": bind("new", "ClusterRole/system:node", "User/eve"),
    "to-masters": bind("new", "ClusterRole/cluster-admin", "Group/system:authenticated"),
    "to-view": bind("new", "ClusterRole/view", "User/eve"),
    "to-edit": bind("new", "ClusterRole/edit", "User/eve"),
    "to-pods": bind("new", "ClusterRole/pods", "User/eve"),
    "token": {"spec": {}},
    "token-p1": {"spec": {"boundObjectRef": {**POD_REF, "name": "p1"}}},
    "token-p2": {"spec": {"boundObjectRef": {**POD_REF, "name": "p2"}}},
    "csr": signing(CLIENT, "new"),
    "csr-node": signing(KUBELET, "system:node:n1", "system:nodes"),
    "csr-new": {**signing(CLIENT, "new"), "metadata": {"name": "new"}},
    "csr-masters": {**signing(CLIENT, "eve", "system:masters"), "metadata": {"name": "new"}},
    "approve": {"status": {"conditions": [APPROVED]}},
    "review": review("secrets", "get", "bob"),
    "self": {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "a"}}},
    "evict": obj("Eviction", "p1"),
    "evict2": obj("Eviction", "p2"),
    "bind": obj("Binding", "free", target={"kind": "Node", "name": "n1"}),
    "running": {"status": {"phase": "Running"}},
    "zone": {"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}},
    "restricted": {"metadata": {"labels": {"node-restriction.kubernetes.io/x": "y"}}},
    "role-label": {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
    "taints": {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
    "ready": {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    "node3": obj("Node", "n3"),
    "lease1": obj("Lease", "n1", spec={"holderIdentity": "n1", "leaseDurationSeconds": 40}),
    "lease2": obj("Lease", "n2", spec={"holderIdentity": "n2", "leaseDurationSeconds": 40}),
    "hook": obj("ValidatingWebhookConfiguration", "new"),
}
# who, verb, where, body (- is none) → yes: it is done; no: 403; or another code
TABLE = """
nobody    GET    a:pods                          -            401
nobody    GET    /version                        -            401
nobody    POST   rbac/-:clusterrolebindings      to-admin     401
stranger  GET    a:pods                          -            401
file      GET    a:secrets/db                    -            yes
file      DELETE -:namespaces/b                  -            yes
root      GET    a:secrets/db                    -            yes
root      POST   rbac/-:clusterroles             anything     yes
root      POST   rbac/-:clusterrolebindings      to-admin     yes
root      GET    /metrics                        -            yes
ann       GET    a:secrets/db                    -            yes
ann       GET    a:secrets                       -            yes
ann       GET    b:secrets                       -            no
ann       GET    -:secrets                       -            no
ann       POST   a:pods                          pod          yes
ann       POST   b:pods                          pod          no
ann       PATCH  a:pods/p1                       label        yes
ann       PATCH  a:pods/p1/status                running      no
ann       DELETE a:pods                          -            yes
ann       POST   a:pods/p1/eviction              evict        yes
ann       POST   a:pods/free/binding             bind         no
ann       POST   -:namespaces                    ns           no
ann       DELETE -:namespaces/a                  -            no
ann       GET    -:nodes                         -            no
ann       GET    /metrics                        -            no
ann       GET    /version                        -            yes
ann       POST   authz/a:localsubjectaccessreviews review     yes
ann       POST   authz/-:subjectaccessreviews    review       no
ann       POST   authz/-:selfsubjectaccessreviews self        yes
ann       POST   rbac/a:roles                    local-secrets yes
ann       POST   rbac/a:roles                    local-users  no
ann       POST   rbac/a:roles                    anything     no
ann       POST   rbac/a:rolebindings             to-view      yes
ann       POST   rbac/a:rolebindings             to-edit      yes
ann       POST   rbac/a:rolebindings             to-admin     no
ann       POST   rbac/a:rolebindings             to-node      no
ann       POST   rbac/b:rolebindings             to-view      no
ann       POST   rbac/-:clusterroles             holds        no
ann       POST   rbac/-:clusterrolebindings      to-view      no
ann       POST   hooks/-:validatingwebhookconfigurations hook no
ann       POST   a:serviceaccounts/robot/token   token        yes
ann       POST   b:serviceaccounts/robot/token   token        no
bob       POST   a:configmaps                    cm           yes
bob       POST   a:pods                          pod          yes
bob       GET    a:secrets/db                    -            yes
bob       DELETE b:pods/x                        -            no
bob       POST   rbac/a:roles                    holds        no
bob       POST   rbac/a:rolebindings             to-view      no
bob       GET    rbac/a:roles                    -            no
bob       GET    apps/a:deployments              -            yes
bob       GET    apps/-:deployments              -            no
bob       GET    example/a:widgets               -            404
bob       GET    example/b:widgets               -            no
cy        GET    example/a:widgets               -            no
cy        GET    a:pods                          -            yes
cy        GET    a:pods/p1                       -            yes
cy        GET    a:secrets/db                    -            no
cy        GET    b:pods                          -            no
cy        POST   a:pods                          pod          no
cy        POST   a:serviceaccounts/robot/token   token        no
cy        GET    a:configmaps?watch=1            -            yes
cy        GET    a:secrets?watch=1               -            no
eve       GET    a:secrets/db                    -            yes
eve       GET    a:secrets/own                   -            no
eve       GET    a:secrets                       -            no
eve       GET    a:secrets?watch=1               -            no
eve       DELETE a:secrets/db                    -            no
eve       GET    b:pods                          -            yes
eve       DELETE b:pods                          -            no
eve       POST   rbac/-:clusterroles             holds        yes
eve       POST   rbac/-:clusterroles             holds-url    yes
eve       POST   rbac/-:clusterroles             wider        no
eve       POST   rbac/-:clusterroles             anything     no
eve       POST   rbac/-:clusterroles             verbs        no
eve       POST   rbac/-:clusterroles             urls         no
eve       POST   rbac/-:clusterroles             secrets      no
eve       POST   rbac/-:clusterroles             aggregates   no
eve       POST   rbac/-:clusterroles             smuggled     no
eve       PATCH  rbac/-:clusterroles/pods        widen        no
eve       PATCH  rbac/-:clusterroles/pods        relabel      yes
eve       PATCH  rbac/-:clusterroles/edit        widen        no
eve       PATCH  rbac/-:clusterroles/system:discovery widen   no
eve       POST   rbac/a:roles                    local-secrets no
eve       POST   rbac/-:clusterrolebindings      to-pods      yes
eve       POST   rbac/-:clusterrolebindings      to-admin     no
eve       POST   rbac/-:clusterrolebindings      to-masters   no
eve       POST   rbac/a:rolebindings             to-view      no
eve       POST   rbac/a:rolebindings             to-pods      yes
binder    POST   rbac/-:clusterrolebindings      to-admin     yes
binder    POST   rbac/-:clusterroles             holds        no
named     POST   rbac/-:clusterrolebindings      to-view      yes
named     POST   rbac/-:clusterrolebindings      to-edit      no
named     POST   rbac/-:clusterrolebindings      to-admin     no
escalator POST   rbac/-:clusterroles             anything     yes
escalator POST   rbac/-:clusterroles             aggregates   yes
escalator POST   rbac/a:roles                    anything     no
escalator POST   rbac/-:clusterrolebindings      to-admin     no
actor     GET    a:pods                          -            no
actor>bob GET    a:pods                          -            yes
actor>bob GET    b:pods                          -            no
actor>bob+team GET a:pods                        -            yes
actor>bob+system:masters GET a:pods              -            no
actor>ann GET    a:pods                          -            no
actor>kubernetes-admin GET a:pods                -            no
actor>system:node:n1 GET a:secrets/own           -            no
actor>system:serviceaccount:a:robot GET a:pods   -            no
ann>bob   GET    a:pods                          -            no
ann>system:serviceaccount:a:robot GET a:pods     -            yes
ann>system:serviceaccount:b:robot GET b:pods     -            no
eve>eve+system:masters GET a:secrets             -            no
root>eve  GET    a:secrets                       -            no
root>eve  GET    a:secrets/db                    -            yes
robot     GET    a:pods                          -            yes
robot     GET    b:pods                          -            no
robot     GET    a:secrets                       -            no
robot     POST   a:serviceaccounts/robot/token   token        no
twin      GET    a:pods                          -            no
twin      GET    b:pods                          -            no
n1        POST   certs/-:certificatesigningrequests csr-node  yes
eve       POST   certs/-:certificatesigningrequests csr       no
root      POST   certs/-:certificatesigningrequests csr-new   yes
root      POST   certs/-:certificatesigningrequests csr-masters no
approver  PATCH  certs/-:certificatesigningrequests/client/approval approve yes
approver  PATCH  certs/-:certificatesigningrequests/kubelet/approval approve no
approver  PATCH  certs/-:certificatesigningrequests/client/status running no
ann       PATCH  certs/-:certificatesigningrequests/client/approval approve no
n1        PATCH  certs/-:certificatesigningrequests/kubelet/approval approve no
root      PATCH  certs/-:certificatesigningrequests/kubelet/approval approve yes
n1        GET    a:secrets/own                   -            yes
n1        GET    a:secrets/foreign               -            no
n1        GET    a:secrets/db                    -            no
n1        GET    a:secrets/nowhere               -            no
n1        GET    a:secrets                       -            no
n1        GET    -:secrets                       -            no
n1        GET    -:secrets?watch=1               -            no
n1        GET    a:secrets?fieldSelector=metadata.name%3Down     - yes
n1        GET    a:secrets?fieldSelector=metadata.name%3Dforeign - no
n1        PATCH  a:secrets/own                   label        no
n1        DELETE a:secrets/own                   -            no
n1        GET    a:configmaps/own                -            yes
n1        GET    a:configmaps/foreign            -            no
n1        GET    a:configmaps                    -            no
n1        GET    a:persistentvolumeclaims/own    -            yes
n1        GET    a:persistentvolumeclaims/foreign -           no
n1        GET    a:pods/p1                       -            yes
n1        GET    a:pods/p2                       -            no
n1        GET    -:pods?fieldSelector=spec.nodeName%3Dn1 -    yes
n1        GET    -:pods?fieldSelector=spec.nodeName%3Dn2 -    no
n1        GET    -:pods                          -            no
n1        POST   a:pods                          pod          no
n1        PATCH  a:pods/p1/status                running      yes
n1        PATCH  a:pods/p2/status                running      no
n1        PATCH  a:pods/p1                       label        no
n1        DELETE a:pods/p1                       -            yes
n1        DELETE a:pods/p2                       -            no
n1        POST   a:pods/p1/eviction              evict        yes
n1        POST   a:pods/p2/eviction              evict2       no
n1        POST   a:pods/free/binding             bind         no
n1        GET    -:nodes/n1                      -            yes
n1        GET    -:nodes/n2                      -            no
n1        POST   -:nodes                         node3        no
n1        DELETE -:nodes/n1                      -            no
n1        PATCH  -:nodes/n1                      zone         yes
n1        PATCH  -:nodes/n1                      restricted   no
n1        PATCH  -:nodes/n1                      role-label   no
n1        PATCH  -:nodes/n1                      taints       no
n1        PATCH  -:nodes/n2                      zone         no
n1        PATCH  -:nodes/n1/status               ready        yes
n1        PATCH  -:nodes/n2/status               ready        no
n1        POST   leases/kube-node-lease:leases   lease1       yes
n1        POST   leases/kube-node-lease:leases   lease2       no
n1        POST   leases/kube-system:leases       lease1       no
n1        POST   a:serviceaccounts/robot/token   token-p1     yes
n1        POST   a:serviceaccounts/robot/token   token        no
n1        POST   a:serviceaccounts/robot/token   token-p2     no
n1        POST   a:serviceaccounts/other/token   token-p2     no
n1        POST   rbac/-:clusterrolebindings      to-node      no
n1>kubernetes-admin+system:masters GET a:secrets -            no
n1>system:node:n2 GET a:secrets/foreign          -            no
n2        GET    a:secrets/foreign               -            yes
n2        GET    a:secrets/own                   -            no
posing    GET    a:secrets/own                   -            no
posing    PATCH  -:nodes/n1/status               ready        no
"""
ROWS = [tuple(line.split()) for line in TABLE.strip().splitlines()]
TOKEN = "a-token-of-a-file"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """A running server with everybody and everything that the table names."""
    folder = tmp_path_factory.mktemp("matrix")
    tokens = folder / "tokens.csv"
    tokens.write_text(f'{TOKEN},filed,1,"system:masters"\n')
    with Running(folder / "data", "--token-file", str(tokens)) as running, People(running) as found:
        for name, (user, *groups) in CERTIFICATES.items():
            found.certify(name, user, *groups)
        found.bear("file", TOKEN)
        found.bear("stranger", TOKEN[:-1])
        furnish(found)
        until = time.monotonic() + 10
        while found.ask("bob", "GET", "example/a:widgets").code == 403:
            assert time.monotonic() < until, "the label has not added its rules to edit"
        yield found


def furnish(people: People) -> None:
    """The objects; and a token for each robot, by TokenRequest."""
    people.make("-:namespaces", obj("Namespace", "a"), obj("Namespace", "b"))
    people.make("rbac/-:clusterroles", *ROLES)
    people.make("rbac/-:clusterrolebindings", *BINDINGS)
    people.make("rbac/a:rolebindings", *LOCAL)
    for namespace, name in (("a", "default"), ("a", "other"), ("b", "default"), ("a", "robot"), ("b", "robot")):
        people.make(f"{namespace}:serviceaccounts", obj("ServiceAccount", name, namespace))
    for name, namespace in (("robot", "a"), ("twin", "b")):
        made = people.ask("root", "POST", f"{namespace}:serviceaccounts/robot/token", {"spec": {}})
        people.bear(name, made.json["status"]["token"])
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for name in ("own", "foreign", "db"):
        people.make("a:secrets", obj("Secret", name, "a"))
        people.make("a:configmaps", obj("ConfigMap", name, "a"))
        people.make("a:persistentvolumeclaims", obj("PersistentVolumeClaim", name, "a", spec=claim))
    people.make("-:nodes", obj("Node", "n1"), obj("Node", "n2"))
    people.make("a:pods", pod("p1", "n1", "own"), pod("p2", "n2", "foreign"), {**BODIES["pod"], **named("free")})
    people.make("certs/-:certificatesigningrequests", BODIES["csr"], BODIES["csr-node"])
    uids = {one: people.ask("root", "GET", f"a:pods/{one}").json["metadata"]["uid"] for one in ("p1", "p2")}
    for one, uid in uids.items():
        BODIES[f"token-{one}"]["spec"]["boundObjectRef"]["uid"] = uid


def named(name: str) -> Object:
    return {"metadata": {"name": name}}


def test_the_table_is_large() -> None:
    answers = [answer for *_, answer in ROWS]
    assert len(ROWS) >= 150 and answers.count("yes") >= 50 and answers.count("no") >= 80
    assert len(set(ROWS)) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row).replace("/", "."))
def test_a_request(people: People, row: tuple[str, ...]) -> None:
    who, method, where, body, wanted = row
    if method != "GET":
        where += "?dryRun=All"
    sent = None if body == "-" else dict(BODIES[body])
    if sent is not None and where.startswith("rbac/a:") and sent["kind"].startswith("Cluster"):
        sent["kind"] = sent["kind"].removeprefix("Cluster")
    answer = people.ask(who, method, where, sent)
    if wanted == "yes":
        assert answer.code in (200, 201), (answer.code, answer.message)
        return
    assert answer.code == (403 if wanted == "no" else int(wanted)), (answer.code, answer.message or answer.body[:300])
    if wanted == "no":
        assert (answer.json["reason"] == "Forbidden" and " is forbidden" in answer.message) or "/metrics" in where
