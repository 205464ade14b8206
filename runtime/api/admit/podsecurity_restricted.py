"""The checks of PodSecurity's level `restricted`: hardened pods only.

Source: k8s.io/pod-security-admission policy/check_*.go, release 1.34; Pod Security Standards.
"""

from __future__ import annotations

from dashpot.runtime.api.admit.podsecurity_baseline import PROFILES, seccomp_forbidden
from dashpot.runtime.api.admit.podsecurity_spec import (
    RESTRICTED,
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
    windows,
)

VOLUMES = frozenset("configMap csi downwardAPI emptyDir ephemeral persistentVolumeClaim projected secret".split())


def _escalation(metadata: Object, spec: Object) -> Finding | None:
    bad = [c.get("name", "") for c in containers(spec) if context(c).get("allowPrivilegeEscalation") is not False]
    if not bad:
        return None
    return Finding(
        "allowPrivilegeEscalation != false", f"{named(bad)} must set securityContext.allowPrivilegeEscalation=false"
    )


def _capabilities(metadata: Object, spec: Object) -> Finding | None:
    keeping, adding, added = [], [], set()
    for container in containers(spec):
        capabilities = context(container).get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or ()):
            keeping.append(container.get("name", ""))
        extra = set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}
        if extra:
            adding.append(container.get("name", ""))
            added |= extra
    details = []
    if keeping:
        details.append(f'{named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        details.append(f"{named(adding)} must not include {quoted(sorted(added))} in securityContext.capabilities.add")
    return Finding("unrestricted capabilities", "; ".join(details)) if details else None


def _volumes(metadata: Object, spec: Object) -> Finding | None:
    bad, kinds = [], set()
    for volume in spec.get("volumes") or ():
        sources = [key for key in volume if key != "name" and volume[key] is not None]
        if not any(source in VOLUMES for source in sources):
            bad.append(volume.get("name", ""))
            kinds.add(sources[0] if sources else "unknown")
    if not bad:
        return None
    uses = plural("uses", "use", len(bad))
    word = plural("restricted volume type", "restricted volume types", len(kinds))
    return Finding("restricted volume types", f"{named(bad, 'volume')} {uses} {word} {quoted(sorted(kinds))}")


def _non_root(metadata: Object, spec: Object) -> Finding | None:
    pod = context(spec).get("runAsNonRoot")
    explicit, silent = [], []
    for container in containers(spec):
        said = context(container).get("runAsNonRoot")
        if said is None and not pod:
            silent.append(container.get("name", ""))
        elif said is False:
            explicit.append(container.get("name", ""))
    who = setters(pod is False, explicit)
    if who:
        return Finding("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    if silent:
        return Finding("runAsNonRoot != true", f"pod or {named(silent)} must set securityContext.runAsNonRoot=true")
    return None


def _user(metadata: Object, spec: Object) -> Finding | None:
    bad = [c.get("name", "") for c in containers(spec) if context(c).get("runAsUser") == 0]
    who = setters(context(spec).get("runAsUser") == 0, bad)
    return Finding("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def _seccomp(metadata: Object, spec: Object) -> Finding | None:
    finding = seccomp_forbidden(metadata, spec)
    if finding is not None:
        return finding
    pod = context(spec).get("seccompProfile")
    if pod is not None and pod.get("type") in PROFILES:
        return None
    silent = [c.get("name", "") for c in containers(spec) if context(c).get("seccompProfile") is None]
    if not silent:
        return None
    return Finding(
        "seccompProfile",
        f'pod or {named(silent)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"',
    )


def _unless_windows(look: Look) -> Look:
    return lambda metadata, spec: None if windows(spec) else look(metadata, spec)


CHECKS = (
    Check("allowPrivilegeEscalation", RESTRICTED, ((8, _escalation), (25, _unless_windows(_escalation)))),
    Check(
        "capabilities_restricted",
        RESTRICTED,
        ((22, _capabilities), (25, _unless_windows(_capabilities))),
        ("capabilities_baseline",),
    ),
    Check("restrictedVolumes", RESTRICTED, ((0, _volumes),), ("hostPathVolumes",)),
    Check("runAsNonRoot", RESTRICTED, ((0, _non_root),)),
    Check("runAsUser", RESTRICTED, ((23, _user),)),
    Check(
        "seccompProfile_restricted",
        RESTRICTED,
        ((19, _seccomp), (25, _unless_windows(_seccomp))),
        ("seccompProfile_baseline",),
    ),
)
