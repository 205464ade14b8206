"""Rules of security contexts: users, profiles, kernel settings, and what a pod's operating system lacks.

Source: pkg/apis/core/validation/validation.go (ValidateSecurityContext, validatePodSpecSecurityContext,
validateHostUsers, validateOS, validateWindows), release 1.34.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from dashpot.model.objects import names
from dashpot.model.objects.status import Cause, duplicate, forbidden_field, invalid_value, not_supported, required
from dashpot.runtime.api.rules.place import Trail, spelled
from dashpot.runtime.api.rules.texts import TEXTS
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
LARGEST: Final = 2**31 - 1
PROFILES: Final = ["Localhost", "RuntimeDefault", "Unconfined"]
LONGEST_PROFILE: Final = 4095
SHARED: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")
LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
SYSCTL: Final = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
SYSCTL_TEXT: Final = f"must have at most 253 characters and match regex ^{SYSCTL}$"
_sysctl = re.compile(SYSCTL).fullmatch
_control = re.compile("[\x00-\x1f\x7f]").search
_netbios = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}').fullmatch
_DOMAIN_LABEL = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_domain = re.compile(rf"{_DOMAIN_LABEL}(\.{_DOMAIN_LABEL})*").fullmatch
_user = re.compile(r'["/\\:;|=,+*?<>@\[\]]').search

CONTEXT_LINUX: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged"),
    *("allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup"),
)
POD_LINUX: Final = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser"),
    *("runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"),
)


def _numbers(value: Object, fields: tuple[str, ...], trail: Trail, causes: list[Cause]) -> None:
    """Users and groups fit into 31 bits."""
    for field in fields:
        number = value.get(field)
        if type(number) is int and not 0 <= number <= LARGEST:
            causes.append(invalid_value(spelled(trail, field), number, f"must be between 0 and {LARGEST}, inclusive"))


def _seccomp(profile: Object, path: str) -> Iterator[Cause]:
    kind, file = profile.get("type"), profile.get("localhostProfile")
    if not kind:
        yield required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in PROFILES:
        yield not_supported(f"{path}.type", kind, PROFILES)
    if kind != "Localhost":
        if file is not None:
            text = "can only be set when seccomp type is Localhost"
            yield invalid_value(f"{path}.localhostProfile", profile, text)
    elif file is None:
        yield required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    else:
        for text in TEXTS["descending-path"](file):
            yield invalid_value(f"{path}.localhostProfile", file, text)


def _apparmor(profile: Object, path: str) -> Iterator[Cause]:
    kind, file = profile.get("type"), profile.get("localhostProfile")
    where = f"{path}.localhostProfile"
    if not kind:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind not in PROFILES:
        yield not_supported(f"{path}.type", kind, PROFILES)
    elif kind != "Localhost":
        if file is not None:
            yield invalid_value(where, file, "can only be set when AppArmor type is Localhost")
    elif not file:
        yield required(where, "must be set when AppArmor type is Localhost")
    else:
        if file != file.strip():
            yield invalid_value(where, file, "must not be padded with whitespace")
        if len(file) > LONGEST_PROFILE:
            yield Cause(where, f"Too long: may not be more than {LONGEST_PROFILE} bytes", "FieldValueTooLong")


def _windows(options: Object, path: str) -> Iterator[Cause]:
    fields = ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName")
    spec_name, spec, user = (options.get(field) for field in fields)
    if spec_name is not None:
        for text in names.dns_subdomain(spec_name):
            yield invalid_value(f"{path}.gmsaCredentialSpecName", spec_name, text)
    if spec is not None:
        if not spec:
            yield invalid_value(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string")
        elif len(spec) > 65536:
            yield invalid_value(f"{path}.gmsaCredentialSpec", spec, "gmsaCredentialSpec size must be under 64 KiB")
    if user is not None:
        for text in _user_name(user):
            yield invalid_value(f"{path}.runAsUserName", user, f"runAsUserName{text}")


def _user_name(text: str) -> Iterator[str]:
    """What is wrong with `DOMAIN\\USER`."""
    parts = text.split("\\")
    if not text:
        yield " cannot be an empty string"
    elif _control(text):
        yield " cannot contain control characters"
    elif len(parts) > 2:
        yield " cannot contain more than one backslash"
    else:
        domain, user = parts[0] if len(parts) == 2 else None, parts[-1]
        if domain is not None and len(domain) >= 256:
            yield "'s Domain length must be under 256 characters"
        if domain is not None and not _netbios(domain) and not _domain(domain):
            yield "'s Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "'s User cannot be empty"
        elif len(user) > 104:
            yield "'s User length must not be longer than 104 characters"
        if user and not user.strip(". "):
            yield "'s User cannot contain only periods or spaces"
        if _user(user):
            yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def _profiles(value: Object, trail: Trail, causes: list[Cause]) -> None:
    for field, rule in (("seccompProfile", _seccomp), ("windowsOptions", _windows), ("appArmorProfile", _apparmor)):
        found = value.get(field)
        if found is not None:
            causes += rule(found, spelled(trail, field))


def _container(entry: Object) -> Check:
    """The security context of a container."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        causes = scene.causes
        _numbers(value, ("runAsUser", "runAsGroup"), trail, causes)
        mount = value.get("procMount")
        if mount is not None:
            path = spelled(trail, "procMount")
            if mount not in ("Default", "Unmasked"):
                causes.append(not_supported(path, mount, ["Default", "Unmasked"]))
            elif mount == "Unmasked" and (scene.spec or {}).get("hostUsers") is not False:
                causes.append(invalid_value(path, mount, "`hostUsers` must be false to use `Unmasked`"))
        if value.get("allowPrivilegeEscalation") is False:
            text = "cannot set `allowPrivilegeEscalation` to false and "
            if value.get("privileged"):
                causes.append(invalid_value(spelled(trail), value, f"{text}`privileged` to true"))
            if "CAP_SYS_ADMIN" in ((value.get("capabilities") or {}).get("add") or ()):
                causes.append(invalid_value(spelled(trail), value, f"{text}`capabilities.Add` CAP_SYS_ADMIN"))
        _profiles(value, trail, causes)

    return check


CHOICES: Final = {
    "fsGroupChangePolicy": ["Always", "OnRootMismatch"],
    "supplementalGroupsPolicy": ["Merge", "Strict"],
    "seLinuxChangePolicy": ["MountOption", "Recursive"],
}


def _pod(entry: Object) -> Check:
    """The security context of a pod, and the namespaces of its host that it shares."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        causes, inner = scene.causes, (trail, "securityContext")
        context = value.get("securityContext")
        if value.get("shareProcessNamespace") and value.get("hostPID"):
            text = "ShareProcessNamespace and HostPID cannot both be enabled"
            causes.append(invalid_value(spelled(inner, "shareProcessNamespace"), True, text))
        if value.get("hostUsers") is False:
            # upstream writes two of the three fields so
            for field, told in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
                if value.get(field):
                    causes.append(forbidden_field(spelled(trail, told), "when `pod.Spec.HostUsers` is false"))
        if context:
            _numbers(context, ("fsGroup", "runAsUser", "runAsGroup"), inner, causes)
            for at, group in enumerate(context.get("supplementalGroups") or ()):
                if not 0 <= group <= LARGEST:
                    text = f"must be between 0 and {LARGEST}, inclusive"
                    causes.append(invalid_value(spelled(inner, f"supplementalGroups[{at}]"), group, text))
            if context.get("sysctls"):
                _sysctls(context["sysctls"], value, (inner, "sysctls"), causes)
            for field, choices in CHOICES.items():
                if context.get(field) is not None and context[field] not in choices:
                    causes.append(not_supported(spelled(inner, field), context[field], choices))
            _profiles(context, inner, causes)

    return check


def _sysctls(rows: list[Object], spec: Object, trail: Trail, causes: list[Cause]) -> None:
    """Kernel settings by name; those of a namespace that the pod shares with its host cannot be set."""
    seen: set[str] = set()
    for at, row in enumerate(rows):
        name, path = row.get("name") or "", spelled((trail, at), "name")
        if not name:
            causes.append(required(path))
        elif len(name) > 253 or not _sysctl(name):
            causes.append(invalid_value(path, name, SYSCTL_TEXT))
        elif name in seen:
            causes.append(duplicate(path, name))
        seen.add(name)
        plain = name.replace("/", ".")
        if spec.get("hostNetwork") and plain.startswith("net."):
            causes.append(invalid_value(path, name, "may not be specified when 'hostNetwork' is true"))
        elif spec.get("hostIPC") and (plain.startswith(SHARED) or plain == "kernel.sem"):
            causes.append(invalid_value(path, name, "may not be specified when 'hostIPC' is true"))


def contexts(spec: Object, trail: Trail) -> Iterator[tuple[Object, Trail]]:
    """The security contexts of a pod's containers, with their places."""
    for listed in LISTS:
        for at, container in enumerate(spec.get(listed) or ()):
            context = container.get("securityContext")
            if context is not None:
                yield context, (((trail, listed), at), "securityContext")


def _system(entry: Object) -> Check:
    """A pod's operating system is known, and nothing of the other one is asked for."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        system = value.get("os")
        if system is None:
            return
        causes, name = scene.causes, system.get("name")
        if not name:
            causes.append(required(spelled(trail, "os.name"), "cannot be empty"))
        elif name == "linux":
            text = "windows options cannot be set for a linux pod"
            places = [(value.get("securityContext") or {}, (trail, "securityContext")), *contexts(value, trail)]
            for context, place in places:
                if context.get("windowsOptions") is not None:
                    causes.append(forbidden_field(spelled(place, "windowsOptions"), text))
        elif name == "windows":
            _no_linux(value, trail, causes)
        else:
            causes.append(not_supported(spelled(trail, "os"), name, ["linux", "windows"]))

    return check


def _no_linux(spec: Object, trail: Trail, causes: list[Cause]) -> None:
    text = "cannot be set for a windows pod"
    context = spec.get("securityContext") or {}
    for field in ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"):
        if spec.get(field) is not None and (spec[field] or field in ("hostUsers", "shareProcessNamespace")):
            causes.append(forbidden_field(spelled(trail, field), text))
    for field in POD_LINUX:
        if context.get(field) is not None and context[field] != []:
            causes.append(forbidden_field(spelled((trail, "securityContext"), field), text))
    for inner, place in contexts(spec, trail):
        for field in CONTEXT_LINUX:
            if inner.get(field) is not None:
                causes.append(forbidden_field(spelled(place, field), text))


def _host_process(entry: Object) -> Check:
    """A pod of Windows host processes has nothing else in it, and is on the host's network."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        ours = ((value.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
        count, hosted = 0, 0
        for listed in LISTS:
            for at, container in enumerate(value.get(listed) or ()):
                count += 1
                context = container.get("securityContext")
                own = (context.get("windowsOptions") or {}).get("hostProcess") if context else None
                if ours is not None and own is not None and ours != own:
                    text = f"pod hostProcess value must be identical if both are specified, was {str(ours).lower()}"
                    path = f"{listed}[{at}].securityContext.windowsOptions.hostProcess"
                    scene.causes.append(invalid_value(spelled(trail, path), own, text))
                hosted += bool(ours if own is None else own)
        if hosted and hosted != count:
            text = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
            scene.causes.append(invalid_value(spelled(trail), "", text))
        if hosted and not value.get("hostNetwork"):
            text = "hostNetwork must be true if pod contains any hostProcess containers"
            scene.causes.append(invalid_value(spelled(trail, "hostNetwork"), False, text))

    return check


SECURITY_CALLS: dict[str, Callable[[Object], Check]] = {
    "containerSecurity": _container,
    "podSecurity": _pod,
    "podSystem": _system,
    "hostProcess": _host_process,
}
