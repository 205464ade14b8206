"""The checks of PodSecurity's level `baseline`: no known way out of a container.

Source: k8s.io/pod-security-admission policy/check_*.go, release 1.34; Pod Security Standards.
"""

from __future__ import annotations

from collections.abc import Iterator

from dashpot.runtime.api.admit.podsecurity_spec import (
    BASELINE,
    Check,
    Finding,
    Look,
    Object,
    containers,
    context,
    named,
    plural,
    quoted,
    setters,
)

APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
PROFILES = ("RuntimeDefault", "Localhost")
CAPABILITIES = frozenset(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID "
    "SYS_CHROOT".split()
)
SELINUX_0 = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
SELINUX_31 = SELINUX_0 | {"container_engine_t"}
SYSCTLS_0 = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
SYSCTLS_27 = SYSCTLS_0 | {"net.ipv4.ip_local_reserved_ports"}
SYSCTLS_29 = SYSCTLS_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
SYSCTLS_32 = SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _apparmor(metadata: Object, spec: Object) -> Finding | None:
    values: set[str] = set()

    def bad(one: Object) -> bool:
        kind = (context(one).get("appArmorProfile") or {}).get("type")
        if kind is None or kind in PROFILES:
            return False
        values.add(kind)
        return True

    pod = bad(spec)
    who = setters(pod, [c.get("name", "") for c in containers(spec) if bad(c)])
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    listed = sorted(values) + annotations
    if not listed:
        return None
    if annotations:
        word = plural("annotation", "annotations", len(annotations))
        who = f"{who} and {word}" if who else word
    reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", len(listed))
    escaped = (value.replace('"', '\\"') for value in listed)
    return Finding(reason, f"{who} must not set AppArmor profile type to {quoted(escaped)}")


def _capabilities(metadata: Object, spec: Object) -> Finding | None:
    bad, added = [], set()
    for container in containers(spec):
        extra = set((context(container).get("capabilities") or {}).get("add") or ()) - CAPABILITIES
        if extra:
            bad.append(container.get("name", ""))
            added |= extra
    if not bad:
        return None
    return Finding(
        "non-default capabilities",
        f"{named(bad)} must not include {quoted(sorted(added))} in securityContext.capabilities.add",
    )


def _host_namespaces(metadata: Object, spec: Object) -> Finding | None:
    found = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return Finding("host namespaces", ", ".join(found)) if found else None


def _host_path(metadata: Object, spec: Object) -> Finding | None:
    found = [v.get("name", "") for v in spec.get("volumes") or () if v.get("hostPath") is not None]
    return Finding("hostPath volumes", named(found, "volume")) if found else None


def _host_ports(metadata: Object, spec: Object) -> Finding | None:
    bad, ports = [], set()
    for container in containers(spec):
        used = {str(p["hostPort"]) for p in container.get("ports") or () if p.get("hostPort")}
        if used:
            bad.append(container.get("name", ""))
            ports |= used
    if not bad:
        return None
    uses = plural("uses", "use", len(bad))
    word = plural("hostPort", "hostPorts", len(ports))
    return Finding("hostPort", f"{named(bad)} {uses} {word} {', '.join(sorted(ports))}")


def _hosts(container: Object) -> Iterator[str]:
    """The hosts that probes and lifecycle handlers name."""
    lifecycle = container.get("lifecycle") or {}
    handlers = [container.get(f"{name}Probe") for name in ("liveness", "readiness", "startup")]
    for handler in [*handlers, lifecycle.get("postStart"), lifecycle.get("preStop")]:
        for kind in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(kind) or {}).get("host")
            if host:
                yield host


def _host_probes(metadata: Object, spec: Object) -> Finding | None:
    bad, hosts = set(), set()
    for container in containers(spec):
        found = set(_hosts(container))
        if found:
            bad.add(container.get("name", ""))
            hosts |= found
    if not bad:
        return None
    uses = plural("uses", "use", len(bad))
    word = plural("probe or lifecycle host", "probe or lifecycle hosts", len(hosts))
    return Finding("probe or lifecycle host", f"{named(sorted(bad))} {uses} {word} {quoted(sorted(hosts))}")


def _privileged(metadata: Object, spec: Object) -> Finding | None:
    bad = [c.get("name", "") for c in containers(spec) if context(c).get("privileged")]
    return Finding("privileged", f"{named(bad)} must not set securityContext.privileged=true") if bad else None


def _proc_mount(metadata: Object, spec: Object) -> Finding | None:
    bad, kinds = [], set()
    for container in containers(spec):
        kind = context(container).get("procMount")
        if kind not in (None, "Default"):
            bad.append(container.get("name", ""))
            kinds.add(kind)
    if not bad:
        return None
    return Finding("procMount", f"{named(bad)} must not set securityContext.procMount to {quoted(sorted(kinds))}")


def _selinux(allowed: frozenset[str]) -> Look:
    def look(metadata: Object, spec: Object) -> Finding | None:
        types: set[str] = set()
        said: set[str] = set()

        def bad(one: Object) -> bool:
            options = context(one).get("seLinuxOptions") or {}
            kind = options.get("type") or ""
            if kind not in allowed:
                types.add(kind)
            taken = [name for name in ("user", "role") if options.get(name)]
            said.update(taken)
            return kind not in allowed or bool(taken)

        pod = bad(spec)
        who = setters(pod, [c.get("name", "") for c in containers(spec) if bad(c)])
        if not who:
            return None
        data = [f"{plural('type', 'types', len(types))} {quoted(sorted(types))}"] if types else []
        data += [f"{name} may not be set" for name in ("user", "role") if name in said]
        return Finding("seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}")

    return look


def _seccomp_annotations(metadata: Object, spec: Object) -> Finding | None:
    annotations = metadata.get("annotations") or {}
    keys = [SECCOMP_POD, *(SECCOMP_CONTAINER + c.get("name", "") for c in containers(spec))]
    found = sorted(
        f'{key}="{annotations[key]}"'
        for key in keys
        if key in annotations
        and annotations[key] not in ("runtime/default", "docker/default")
        and not annotations[key].startswith("localhost/")
    )
    if not found:
        return None
    return Finding("seccompProfile", f"forbidden {plural('annotation', 'annotations', len(found))} {', '.join(found)}")


def seccomp_forbidden(metadata: Object, spec: Object) -> Finding | None:
    """A seccomp profile that is set must be one of the two."""
    values: set[str] = set()

    def bad(one: Object) -> bool:
        profile = context(one).get("seccompProfile")
        if profile is None or profile.get("type") in PROFILES:
            return False
        values.add(profile.get("type") or "")
        return True

    pod = bad(spec)
    who = setters(pod, [c.get("name", "") for c in containers(spec) if bad(c)])
    if not who:
        return None
    return Finding(
        "seccompProfile", f"{who} must not set securityContext.seccompProfile.type to {quoted(sorted(values))}"
    )


def _sysctls(allowed: frozenset[str]) -> Look:
    def look(metadata: Object, spec: Object) -> Finding | None:
        names = [s.get("name", "") for s in context(spec).get("sysctls") or ()]
        bad = [name for name in names if name not in allowed]
        return Finding("forbidden sysctls", ", ".join(bad)) if bad else None

    return look


def _host_process(metadata: Object, spec: Object) -> Finding | None:
    def bad(one: Object) -> bool:
        return bool((context(one).get("windowsOptions") or {}).get("hostProcess"))

    who = setters(bad(spec), [c.get("name", "") for c in containers(spec) if bad(c)])
    if not who:
        return None
    return Finding("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true")


CHECKS = (
    Check("appArmorProfile", BASELINE, ((0, _apparmor),)),
    Check("capabilities_baseline", BASELINE, ((0, _capabilities),)),
    Check("hostNamespaces", BASELINE, ((0, _host_namespaces),)),
    Check("hostPathVolumes", BASELINE, ((0, _host_path),)),
    Check("hostPorts", BASELINE, ((0, _host_ports),)),
    Check("hostProbesAndHostLifecycle", BASELINE, ((34, _host_probes),)),
    Check("privileged", BASELINE, ((0, _privileged),)),
    Check("procMount", BASELINE, ((0, _proc_mount),)),
    Check("seLinuxOptions", BASELINE, ((0, _selinux(SELINUX_0)), (31, _selinux(SELINUX_31)))),
    Check("seccompProfile_baseline", BASELINE, ((0, _seccomp_annotations), (19, seccomp_forbidden))),
    Check(
        "sysctls",
        BASELINE,
        (
            (0, _sysctls(SYSCTLS_0)),
            (27, _sysctls(SYSCTLS_27)),
            (29, _sysctls(SYSCTLS_29)),
            (32, _sysctls(SYSCTLS_32)),
        ),
    ),
    Check("windowsHostProcess", BASELINE, ((0, _host_process),)),
)
