"""PodSecurity: every check of every level with its text; versions, modes, templates and namespaces."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.admit_kit import FakeView, Object, named, pod, resource, write

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.admit.base import UPDATE, Attributes
from dashpot.runtime.api.admit.podsecurity import PodSecurity
from dashpot.runtime.api.admit.podsecurity_policy import Level, findings

NAMESPACES = resource("", "namespaces")
HARD = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def hard(name: str = "a", **over: Any) -> Object:
    """A container that meets `restricted`, but for `over`."""
    return {"name": name, "securityContext": {**HARD, **over}}


def spec(*containers: Object, **rest: Any) -> Object:
    return {"containers": list(containers) or [hard()], **rest}


def broken(level: str, one: Object, minor: int | None = None, annotations: Object | None = None) -> list[str]:
    wanted = Level(level) if minor is None else Level(level, (1, minor))
    return [str(found) for found in findings(wanted, {"annotations": annotations}, one)]


BASELINE: list[tuple[Object, str]] = [
    (
        spec(hostNetwork=True, hostPID=True, hostIPC=True),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    (spec(hard(privileged=True)), 'privileged (container "a" must not set securityContext.privileged=true)'),
    (
        spec(hard("a", privileged=True), hard("b", privileged=True)),
        'privileged (containers "a", "b" must not set securityContext.privileged=true)',
    ),
    (
        spec(hard(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN", "CHOWN", "BPF"]})),
        'non-default capabilities (container "a" must not include "BPF", "SYS_ADMIN" in '
        "securityContext.capabilities.add)",
    ),
    (spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), 'hostPath volumes (volume "v")'),
    (
        spec({**hard(), "ports": [{"hostPort": 80}, {"hostPort": 443}]}),
        'hostPort (container "a" uses hostPorts 443, 80)',
    ),
    (
        spec({**hard(), "livenessProbe": {"httpGet": {"host": "h"}}}),
        'probe or lifecycle host (container "a" uses probe or lifecycle host "h")',
    ),
    (
        spec({**hard(), "lifecycle": {"preStop": {"tcpSocket": {"host": "h"}}}}),
        'probe or lifecycle host (container "a" uses probe or lifecycle host "h")',
    ),
    (
        spec(hard(procMount="Unmasked")),
        'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        spec(
            hard(seLinuxOptions={"type": "foo"}),
            hard("b", seLinuxOptions={"user": "u", "role": "r"}),
            securityContext={"seLinuxOptions": {"type": "bar"}},
        ),
        'seLinuxOptions (pod and containers "a", "b" set forbidden securityContext.seLinuxOptions: types "bar", "foo"; '
        "user may not be set; role may not be set)",
    ),
    (
        spec(hard(seccompProfile={"type": "Unconfined"})),
        'seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        spec(securityContext={"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_syncookies"}]}),
        "forbidden sysctls (kernel.msgmax)",
    ),
    (
        spec(hard(appArmorProfile={"type": "Unconfined"})),
        'forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")',
    ),
    (
        spec(securityContext={"windowsOptions": {"hostProcess": True}}),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
    ),
]


@pytest.mark.parametrize(("one", "text"), BASELINE, ids=range(len(BASELINE)))
def test_baseline(one: Object, text: str) -> None:
    assert broken("baseline", one) == [text]
    assert broken("privileged", one) == []


RESTRICTED: list[tuple[Object, list[str]]] = [
    (spec(), []),
    (
        spec(hard(allowPrivilegeEscalation=None)),
        ['allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)'],
    ),
    (
        spec(hard(capabilities={"drop": ["KILL"], "add": ["CHOWN", "NET_BIND_SERVICE"]})),
        [
            'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; container '
            '"a" must not include "CHOWN" in securityContext.capabilities.add)'
        ],
    ),
    (
        spec(volumes=[{"name": "v", "hostPath": {}}, {"name": "w", "nfs": {}}, {"name": "x", "emptyDir": {}}]),
        ['restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")'],
    ),
    (
        spec(hard(runAsNonRoot=None)),
        ['runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)'],
    ),
    (
        spec(hard(runAsNonRoot=False), securityContext={"runAsNonRoot": False}),
        ['runAsNonRoot != true (pod and container "a" must not set securityContext.runAsNonRoot=false)'],
    ),
    (spec(hard(runAsNonRoot=None), securityContext={"runAsNonRoot": True}), []),
    (spec(hard(runAsUser=0)), ['runAsUser=0 (container "a" must not set runAsUser=0)']),
    (
        spec(hard(seccompProfile=None)),
        [
            'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
            '"Localhost")'
        ],
    ),
    (
        spec(hard(seccompProfile={"type": "Unconfined"})),
        ['seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")'],
    ),
    (spec(hard(seccompProfile=None), securityContext={"seccompProfile": {"type": "Localhost"}}), []),
    (
        spec({"name": "a"}, hostNetwork=True),
        [
            "host namespaces (hostNetwork=true)",
            'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)',
            'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"])',
            'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
            'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
            '"Localhost")',
        ],
    ),
]


@pytest.mark.parametrize(("one", "texts"), RESTRICTED, ids=range(len(RESTRICTED)))
def test_restricted(one: Object, texts: list[str]) -> None:
    assert broken("restricted", one) == texts


@pytest.mark.parametrize(
    ("level", "minor", "one", "breaks"),
    [
        ("restricted", 7, spec(hard(allowPrivilegeEscalation=None)), False),
        ("restricted", 8, spec(hard(allowPrivilegeEscalation=None)), True),
        ("restricted", 24, spec(hard(allowPrivilegeEscalation=None), os={"name": "windows"}), True),
        ("restricted", 25, spec(hard(allowPrivilegeEscalation=None), os={"name": "windows"}), False),
        ("restricted", 21, spec(hard(capabilities={})), False),
        ("restricted", 22, spec(hard(capabilities={})), True),
        ("restricted", 22, spec(hard(runAsUser=0)), False),
        ("restricted", 23, spec(hard(runAsUser=0)), True),
        ("baseline", 33, spec({**hard(), "livenessProbe": {"httpGet": {"host": "h"}}}), False),
        ("baseline", 30, spec(hard(seLinuxOptions={"type": "container_engine_t"})), True),
        ("baseline", 31, spec(hard(seLinuxOptions={"type": "container_engine_t"})), False),
        ("baseline", 26, spec(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}), True),
        ("baseline", 27, spec(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}), False),
        ("baseline", 31, spec(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}), True),
        ("baseline", 32, spec(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}), False),
        ("baseline", 18, spec(hard(seccompProfile={"type": "Unconfined"})), False),
    ],
)
def test_versions(level: str, minor: int, one: Object, breaks: bool) -> None:
    assert bool(broken(level, one, minor)) == breaks


def test_annotations() -> None:
    apparmor = {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}
    (told,) = broken("baseline", spec(), None, apparmor)
    assert told == (
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
        '"container.apparmor.security.beta.kubernetes.io/a=\\"unconfined\\"")'
    )
    seccomp = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    assert broken("baseline", spec(), 18, seccomp) == [
        'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    ]


def labelled(**labels: str) -> FakeView:
    """A view whose namespace `n` asks for levels: enforce="restricted", warn_version="v1.24" …"""
    view = FakeView()
    full = {f"pod-security.kubernetes.io/{k.replace('_', '-')}": v for k, v in labels.items()}
    view.put("", "namespaces", named("n", labels=full))
    return view


def run(view: FakeView, attributes: Attributes) -> Attributes:
    asyncio.run(PodSecurity(view).validate(attributes))
    return attributes


def test_enforced() -> None:
    attributes = write(pod(hostPID=True))
    with pytest.raises(StatusError) as caught:
        run(labelled(enforce="baseline", warn="baseline", enforce_version="v1.24"), attributes)
    assert caught.value.code == 403
    assert caught.value.message == (
        'pods "web" is forbidden: violates PodSecurity "baseline:v1.24": host namespaces (hostPID=true)'
    )
    assert attributes.exchange.warnings == []
    assert attributes.exchange.annotations == {"pod-security.kubernetes.io/enforce-policy": "baseline:v1.24"}


def test_warned_and_audited() -> None:
    done = run(labelled(audit="baseline", warn="baseline"), write(pod(hostPID=True)))
    text = 'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    assert done.exchange.warnings == [text]
    assert done.exchange.annotations == {
        "pod-security.kubernetes.io/enforce-policy": "privileged:latest",
        "pod-security.kubernetes.io/audit-violations": text,
    }


@pytest.mark.parametrize(
    ("group", "plural", "path"),
    [
        ("apps", "deployments", ("spec", "template")),
        ("batch", "cronjobs", ("spec", "jobTemplate", "spec", "template")),
        ("", "podtemplates", ("template",)),
    ],
)
def test_workloads_are_only_warned_of(group: str, plural: str, path: tuple[str, ...]) -> None:
    inner: Object = {"spec": spec(hostPID=True)}
    for step in reversed(path):
        inner = {step: inner}
    done = run(labelled(enforce="baseline", warn="baseline"), write(named("w", "n") | inner, resource(group, plural)))
    assert done.exchange.warnings == ['would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)']


def test_updates_count_only_where_images_change() -> None:
    view = labelled(enforce="baseline")
    run(view, write(pod(hostPID=True), operation=UPDATE, old=pod(hostPID=True)))
    changed = pod({"name": "c", "image": "other"}, hostPID=True)
    with pytest.raises(StatusError):
        run(view, write(changed, operation=UPDATE, old=pod(hostPID=True)))


def namespace(**labels: str) -> Object:
    return named("n", labels={f"pod-security.kubernetes.io/{k.replace('_', '-')}": v for k, v in labels.items()})


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (
            {"enforce": "strict"},
            'Namespace "n" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": '
            "must be one of privileged, baseline, restricted",
        ),
        (
            {"warn_version": "1.24"},
            'Namespace "n" is invalid: metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "1.24"'
            ': must be "latest" or "v1.x"',
        ),
    ],
)
def test_labels_of_namespaces(labels: dict[str, str], text: str) -> None:
    with pytest.raises(StatusError) as caught:
        run(FakeView(), write(namespace(**labels), NAMESPACES))
    assert (caught.value.code, caught.value.message) == (422, text)
    run(FakeView(), write(namespace(**labels), NAMESPACES, UPDATE, old=namespace(**labels)))


def test_rising_level_names_pods_that_break_it() -> None:
    view = FakeView()
    for name, rest in (("a", {"hostPID": True}), ("b", {"hostPID": True}), ("c", {"hostIPC": True}), ("d", {})):
        view.put("", "pods", named(name, "n") | {"spec": spec(**rest)})
    done = run(view, write(namespace(enforce="baseline"), NAMESPACES, UPDATE, old=namespace()))
    assert done.exchange.warnings == [
        'existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 2 other pods): host namespaces",
    ]
