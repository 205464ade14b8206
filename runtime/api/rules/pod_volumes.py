"""Rules of the volumes of a pod: one source each, and what each kind of source needs.

Source: pkg/apis/core/validation/validation.go (ValidateVolumes, validateVolumeSource and what it calls), release 1.34.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from dashpot.model.objects import names
from dashpot.model.objects.metadata import validate_annotations, validate_labels, validate_selector
from dashpot.model.objects.quantity import QuantityError, parse
from dashpot.model.objects.status import Cause, duplicate, forbidden_field, invalid_value, not_supported, required
from dashpot.runtime.api.rules.place import Trail, in_order, spelled
from dashpot.runtime.api.rules.pod_env import FILE_FIELDS, field_ref, resource_ref
from dashpot.runtime.api.rules.texts import TEXTS
from dashpot.runtime.api.rules.walk import Check, Scene

Object = dict[str, Any]
Causes = Iterator[Cause]
VOLUME_SOURCES: Final = tuple(
    "emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs flocker"
    " persistentVolumeClaim rbd cinder cephfs quobyte downwardAPI fc flexVolume configMap azureFile vsphereVolume"
    " photonPersistentDisk portworxVolume azureDisk storageos projected scaleIO csi ephemeral image".split()
)
"""The sources of a pod's volume as upstream looks at them: the first stands, the others are refused."""
HOST_PATHS: Final = [
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
]
NEEDED: Final = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "secret": ("secretName",),
    "configMap": ("name",),
    "persistentVolumeClaim": ("claimName",),
    "nfs": ("server", "path"),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("volume",),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "storageos": ("volumeName",),
    "scaleIO": ("gateway", "system", "volumeName"),
    "ephemeral": ("volumeClaimTemplate",),
}
QUALIFIED: Final = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.[a-zA-Z0-9.-]+:[^,;*&$|\s]+$").search,
    "eui": re.compile(r"eui.[a-zA-Z0-9]{16}").fullmatch,
    "naa": re.compile(r"naa.[a-zA-Z0-9]{32}").fullmatch,
}
"""The names of iSCSI by their kind."""
LONGEST_NAME: Final = 1024
"""Longer names (RFC 3720 knows 223 bytes) are not looked at: the search could take time beyond measure."""
MODE_TEXT: Final = "must be a number between 0 and 0777 (octal), both inclusive"
_local = TEXTS["local-path"]


def _mode(source: Object, field: str, path: str) -> Causes:
    mode = source.get(field)
    if type(mode) is int and not 0 <= mode <= 0o777:
        yield invalid_value(f"{path}.{field}", mode, MODE_TEXT)


def _items(source: Object, path: str) -> Causes:
    """Keys and the files that they become."""
    for at, item in enumerate(source.get("items") or ()):
        for field in ("key", "path"):
            if not item.get(field):
                yield required(f"{path}.items[{at}].{field}")
        file = item.get("path") or ""
        for text in _local(file):
            yield invalid_value(f"{path}.items[{at}].path", file, text)
        yield from _mode(item, "mode", f"{path}.items[{at}]")


def _keys(source: Object, path: str) -> Causes:
    yield from _mode(source, "defaultMode", path)
    yield from _items(source, path)


def _downward(source: Object, path: str) -> Causes:
    """Files about the pod; upstream tells them without their index."""
    yield from _mode(source, "defaultMode", path)
    for item in source.get("items") or ():
        file = item.get("path") or ""
        if not file:
            yield required(f"{path}.path")
        for text in _local(file):
            yield invalid_value(f"{path}.path", file, text)
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            yield from field_ref(field, FILE_FIELDS, f"{path}.fieldRef")
            if resource is not None:
                text = "fieldRef and resourceFieldRef can not be specified simultaneously"
                yield invalid_value(path, "resource", text)
        elif resource is not None:
            yield from resource_ref(resource, f"{path}.resourceFieldRef", in_file=True)
        else:
            yield required(path, "one of fieldRef and resourceFieldRef is required")
        yield from _mode(item, "mode", path)


def _projected(source: Object, path: str) -> Causes:
    """Several sources in one directory: no file comes from two of them."""
    yield from _mode(source, "defaultMode", path)
    files: set[str] = set()
    for at, row in enumerate(source.get("sources") or ()):
        where = f"{path}.sources[{at}]"
        kinds = 0
        for kind, rule in PROJECTIONS.items():
            found = row.get(kind)
            if found is None:
                continue
            kinds += 1
            yield from rule(found, f"{where}.{kind}", path)
            rows = [found] if kind == "clusterTrustBundle" else () if kind == TOKEN else found.get("items") or ()
            for item in rows:
                file = item.get("path")
                if file and file in files:
                    told = file if kind in ("downwardAPI", "clusterTrustBundle") else found.get("name", "")
                    yield invalid_value(path, told, "conflicting duplicate paths")
                files.add(file or "")
        if kinds > 1:
            yield forbidden_field(where, "may not specify more than 1 volume type per source")


TOKEN: Final = "serviceAccountToken"


def _named_keys(source: Object, path: str, volume: str) -> Causes:
    if not source.get("name"):
        yield required(f"{path}.name")
    yield from _items(source, path)


def _token(source: Object, path: str, volume: str) -> Causes:
    seconds, file = source.get("expirationSeconds", 3600), source.get("path")
    if seconds < 600:
        text = "may not specify a duration less than 10 minutes"
        yield invalid_value(f"{path}.expirationSeconds", seconds, text)
    if seconds > 1 << 32:
        text = "may not specify a duration larger than 2^32 seconds"
        yield invalid_value(f"{path}.expirationSeconds", seconds, text)
    # upstream tells the path as one of the volume, not of the source
    if not file:
        yield required(f"{volume}.path")
    else:
        for text in _local(file):
            yield invalid_value(f"{volume}.path", file, text)


def _bundle(source: Object, path: str, volume: str) -> Causes:
    """Certificates of a signer, or those of one bundle (KEP-3257)."""
    name, signer, file = source.get("name"), source.get("signerName"), source.get("path") or ""
    if name is not None and signer is not None:
        yield invalid_value(path, source, "only one of name and signerName may be used")
    elif name is not None:
        if not name:
            yield required(f"{path}.name", "must be a valid object name")
        if source.get("labelSelector") is not None:
            text = "labelSelector must be unset if name is specified"
            yield invalid_value(f"{path}.labelSelector", source["labelSelector"], text)
    elif signer is not None:
        if not signer:
            yield required(f"{path}.signerName", "must be a valid signer name")
        yield from validate_selector(source.get("labelSelector") or {}, f"{path}.labelSelector")
    else:
        yield required(path, "either name or signerName must be specified")
    if not file:
        yield required(f"{path}.path")
    for text in _local(file):
        yield invalid_value(f"{path}.path", file, text)


PROJECTIONS: Final[dict[str, Callable[[Object, str, str], Causes]]] = {
    "secret": _named_keys,
    "configMap": _named_keys,
    "downwardAPI": lambda source, path, volume: _downward(source, path),
    TOKEN: _token,
    "clusterTrustBundle": _bundle,
}


def _empty_dir(source: Object, path: str) -> Causes:
    limit = source.get("sizeLimit")
    if limit is None:
        return
    try:
        if parse(str(limit)).nano < 0:
            yield forbidden_field(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    except QuantityError as error:
        yield invalid_value(f"{path}.sizeLimit", limit, str(error))


def _host_path(source: Object, path: str) -> Causes:
    file, kind = source.get("path"), source.get("type")
    if not file:
        yield required(f"{path}.path")
        return
    for text in TEXTS["no-steps-back"](file):
        yield invalid_value(f"{path}.path", file, text)
    if kind is not None and kind not in HOST_PATHS:
        yield not_supported(f"{path}.type", kind, HOST_PATHS)


def _git(source: Object, path: str) -> Causes:
    for text in TEXTS["descending-path"](source.get("directory") or ""):
        yield invalid_value(f"{path}.directory", source["directory"], text)


def _nfs(source: Object, path: str) -> Causes:
    file = source.get("path") or ""
    if not file.startswith("/"):
        yield invalid_value(f"{path}.path", file, "must be an absolute path")


def _partition(source: Object, path: str) -> Causes:
    number = source.get("partition", 0)
    if not 0 <= number <= 255:
        yield invalid_value(f"{path}.partition", number, "must be between 1 and 255, inclusive")


def _iscsi(source: Object, path: str) -> Causes:
    lun = source.get("lun", 0)
    for field, told in (("iqn", "iqn"), ("initiatorName", "initiatorname")):
        name = source.get(field)
        if not name:
            continue
        form = QUALIFIED.get(name[:3])
        if form is None:
            yield invalid_value(f"{path}.{told}", name, "must be valid format starting with iqn, eui, or naa")
        elif len(name) <= LONGEST_NAME and not form(name):
            yield invalid_value(f"{path}.{told}", name, "must be valid format")
    if not 0 <= lun <= 255:
        yield invalid_value(f"{path}.lun", lun, "must be between 0 and 255, inclusive")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        yield required(f"{path}.secretRef")


def _flex(source: Object, path: str) -> Causes:
    for key in source.get("options") or ():
        owner = key.partition("/")[0] if "/" in key else key
        if f".{owner.lower()}".endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            yield invalid_value(f"{path}.options[{key}]", key, text)


def _azure_disk(source: Object, path: str) -> Causes:
    kind, uri = source.get("kind"), source.get("diskURI") or ""
    for field, known in (
        ("cachingMode", ["None", "ReadOnly", "ReadWrite"]),
        ("kind", ["Dedicated", "Managed", "Shared"]),
    ):
        if source.get(field) is not None and source[field] not in known:
            yield not_supported(f"{path}.{field}", source[field], known)
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        form = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        yield not_supported(f"{path}.diskURI", uri, [form])
    if kind is not None and kind != "Managed" and not uri.startswith("https://"):
        form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        yield not_supported(f"{path}.diskURI", uri, [form])


def _fibre(source: Object, path: str) -> Causes:
    names_, ids, lun = source.get("targetWWNs"), source.get("wwids"), source.get("lun")
    if not names_ and not ids:
        yield required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if names_ and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        yield invalid_value(f"{path}.targetWWNs", names_, text)
    if names_ and lun is None:
        yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif names_ and lun is not None and not 0 <= lun <= 255:
        yield invalid_value(f"{path}.lun", lun, "must be between 0 and 255, inclusive")


def _flocker(source: Object, path: str) -> Causes:
    name, uid = source.get("datasetName"), source.get("datasetUUID")
    if not name and not uid:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        yield invalid_value(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if name and "/" in name:
        yield invalid_value(f"{path}.datasetName", name, "must not contain '/'")


def _csi(source: Object, path: str) -> Causes:
    driver, secret = source.get("driver") or "", source.get("nodePublishSecretRef")
    if not driver:
        yield required(f"{path}.driver")
    if len(driver) > 63:
        yield Cause(f"{path}.driver", "Too long: may not be more than 63 bytes", "FieldValueTooLong")
    for text in names.dns_subdomain(driver.lower()):
        yield invalid_value(f"{path}.driver", driver, text)
    if secret is not None and not secret.get("name"):
        yield required(f"{path}.nodePublishSecretRef.name")
    elif secret is not None:
        for text in names.dns_subdomain(secret["name"]):
            yield invalid_value(f"{path}.name", secret["name"], text)


def _ephemeral(source: Object, path: str) -> Causes:
    """A claim of its own: labels and annotations are all that its metadata may say."""
    meta = (source.get("volumeClaimTemplate") or {}).get("metadata") or {}
    where = f"{path}.volumeClaimTemplate.metadata"
    yield from validate_annotations(meta.get("annotations") or {}, f"{where}.annotations")
    yield from validate_labels(meta.get("labels") or {}, f"{where}.labels")
    for field in ("name", "generateName", "namespace", "finalizers", "ownerReferences"):
        if meta.get(field):
            yield forbidden_field(f"{where}.{field}", "cannot be set")


def _image(source: Object, path: str) -> Causes:
    policy = source.get("pullPolicy")
    if policy and policy not in ("Always", "IfNotPresent", "Never"):
        yield not_supported(f"{path}.pullPolicy", policy, ["Always", "IfNotPresent", "Never"])


KINDS: Final[dict[str, Callable[[Object, str], Causes]]] = {
    "emptyDir": _empty_dir,
    "hostPath": _host_path,
    "gitRepo": _git,
    "gcePersistentDisk": _partition,
    "awsElasticBlockStore": _partition,
    "secret": _keys,
    "configMap": _keys,
    "nfs": _nfs,
    "iscsi": _iscsi,
    "flexVolume": _flex,
    "azureDisk": _azure_disk,
    "flocker": _flocker,
    "fc": _fibre,
    "downwardAPI": _downward,
    "projected": _projected,
    "csi": _csi,
    "ephemeral": _ephemeral,
    "image": _image,
}


def _source(volume: Object, name: str, path: str) -> Causes:
    """One source of a volume."""
    # upstream calls this one by another name
    path = f"{path}.{'persistentDisk' if name == 'gcePersistentDisk' else name}"
    source = volume[name]
    for field in NEEDED.get(name, ()):
        if not source.get(field):
            yield required(f"{path}.{field}")
    rule = KINDS.get(name)
    if rule is not None:
        yield from rule(source, path)


def _volumes(entry: Object) -> Check:
    """Volumes have different names and one good source each."""

    def check(value: Any, old: Any, trail: Trail, scene: Scene) -> None:
        seen: set[str] = set()
        causes = scene.causes
        is_pod = trail == ((), "spec")
        owner = (scene.object.get("metadata") or {}).get("name") or "" if is_pod else ""
        volumes: list[Object] = value.get("volumes") or []
        for at, volume in enumerate(volumes):
            path, name = spelled(trail, f"volumes[{at}]"), volume.get("name") or ""
            given = [kind for kind, source in volume.items() if kind != "name" and source is not None]
            if not given:
                causes.append(required(path, "must specify a volume type"))
            else:
                if len(given) > 1:
                    given = in_order(given, VOLUME_SOURCES)
                    text = "may not specify more than 1 volume type"
                    causes += [forbidden_field(f"{path}.{kind}", text) for kind in given[1:]]
                causes += _source(volume, given[0], path)
            if not name:
                causes.append(required(f"{path}.name"))
                continue
            if wrong := names.dns_label(name):
                causes += [invalid_value(f"{path}.name", name, text) for text in wrong]
            if name in seen:
                causes.append(duplicate(f"{path}.name", name))
            seen.add(name)
            if owner and volume.get("ephemeral") is not None:
                claim = f"{owner}-{name}"
                for text in names.dns_subdomain(claim):
                    causes.append(invalid_value(f"{path}.name", name, f'PVC name "{claim}": {text}'))
        if owner:
            _no_own_claim(value, owner, trail, causes)

    return check


def _no_own_claim(spec: Object, owner: str, trail: Trail, causes: list[Cause]) -> None:
    """A pod mounts no claim by name that it makes itself, and no token while it has no account."""
    volumes = spec.get("volumes") or ()
    made = {f"{owner}-{volume.get('name')}" for volume in volumes if volume.get("ephemeral") is not None}
    for at, volume in enumerate(volumes):
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") if made else None
        if claim in made:
            path = spelled(trail, f"volumes[{at}].persistentVolumeClaim.claimName")
            text = "must not reference a PVC that gets created for an ephemeral volume"
            causes.append(invalid_value(path, claim, text))
        if spec.get("serviceAccountName") or volume.get("projected") is None:
            continue
        for index, source in enumerate(volume["projected"].get("sources") or ()):
            if source.get(TOKEN) is not None:
                path = spelled(trail, f"volumes[{at}].projected.sources[{index}].{TOKEN}")
                causes.append(forbidden_field(path, "must not be specified when serviceAccountName is not set"))


VOLUME_CALLS: dict[str, Callable[[Object], Check]] = {"volumes": _volumes}
