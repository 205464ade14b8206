"""Kubeconfig files: several are merged as the KUBECONFIG variable means it, and one context of them is an Access.

Sources: client-go tools/clientcmd (loader.go, client_config.go, validation.go), release 1.34; kubeconfig v1.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from attrs import field, frozen

from dashpot.runtime.client.access import Access, Acting, KubeconfigError, Login, Plugin

Object = dict[str, Any]

SIZE_MAX = 4 << 20
"""Bytes of one file."""
EXTENSION = "client.authentication.k8s.io/exec"
"""The cluster's extension that is handed to credential plugins."""
PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
MODES = ("Never", "IfAvailable", "Always")
_ONE = {"clusters": "cluster", "users": "user", "contexts": "context"}


@frozen
class Entry:
    """A cluster, user or context, and the file that it is from: files that it names are beside that one."""

    name: str
    path: Path
    what: str
    body: Object = field(repr=False)

    def __str__(self) -> str:
        return f"{self.path}: {self.what} '{self.name}'"

    def text(self, key: str) -> str:
        """A string of it; empty where there is none."""
        value = self.body.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise KubeconfigError(f"{self}: {key} must be a string: put it in quotes")
        return value

    def flag(self, key: str) -> bool:
        """A boolean of it."""
        value = self.body.get(key)
        if not isinstance(value, bool | None):
            raise KubeconfigError(f"{self}: {key} must be true or false")
        return bool(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings of it."""
        value = self.body.get(key) or []
        if not isinstance(value, list) or not all(isinstance(row, str) for row in value):
            raise KubeconfigError(f"{self}: {key} must be a list of strings")
        return tuple(value)

    def material(self, key: str) -> bytes:
        """What `KEY-data` holds (base64), or else the file `KEY`."""
        data = self.text(f"{key}-data")
        if data:
            try:
                return base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError):
                raise KubeconfigError(f"{self}: {key}-data is no base64: encode the file with base64 -w0") from None
        named = self.text(key)
        if not named:
            return b""
        path = self.path.parent / named
        try:
            return path.read_bytes()
        except OSError as error:
            told = error.strerror or type(error).__name__
            raise KubeconfigError(
                f"{self}: {key} names {path}, which cannot be read ({told}): correct the path, or use {key}-data"
            ) from None


@frozen
class Kubeconfig:
    """Files, merged."""

    paths: tuple[Path, ...]
    current: str
    clusters: Mapping[str, Entry]
    users: Mapping[str, Entry]
    contexts: Mapping[str, Entry]

    def access(self, context: str = "", *, cluster: str = "", user: str = "", namespace: str = "") -> Access:
        """One context, the current one by default; `cluster`, `user` and `namespace` replace what it says.
        KubeconfigError."""
        name = context or self.current
        chosen = self._chosen(name, needed=not (cluster and user))
        cluster = cluster or (chosen.text("cluster") if chosen else "")
        user = user or (chosen.text("user") if chosen else "")
        if not cluster:
            raise KubeconfigError(f"{chosen or self._files()}: no cluster is named: add 'cluster: NAME' to the context")
        place = self._entry(self.clusters, "cluster", cluster, chosen)
        who = self._entry(self.users, "user", user, chosen) if user else None
        found = _cluster(place)
        login, acting = (_login(who, found, place), _acting(who)) if who is not None else (Login(), Acting())
        space = namespace or (chosen.text("namespace") if chosen else "") or "default"
        return Access(
            **found,
            namespace=space,
            login=login,
            acting=acting,
            context=name,
            where=str(place),
        )

    def _chosen(self, name: str, *, needed: bool) -> Entry | None:
        if name and name in self.contexts:
            return self.contexts[name]
        if name:
            raise KubeconfigError(f"{self._files()}: there is no context '{name}': {_known(self.contexts)}")
        if not needed:
            return None
        raise KubeconfigError(
            f"{self._files()}: no current-context is set: choose one with --context or kubectl config use-context "
            f"({_known(self.contexts)})"
        )

    def _entry(self, entries: Mapping[str, Entry], what: str, name: str, chosen: Entry | None) -> Entry:
        if name not in entries:
            raise KubeconfigError(f"{chosen or self._files()}: there is no {what} '{name}': {_known(entries)}")
        return entries[name]

    def _files(self) -> str:
        return ", ".join(map(str, self.paths)) or "no kubeconfig"


def _known(entries: Mapping[str, Entry]) -> str:
    return f"there are {', '.join(sorted(entries)[:10])}" if entries else "there are none"


def search_path(explicit: Path | None, variable: str, home: Path) -> list[Path]:
    """The files that are meant: the one named, else those of KUBECONFIG's value, else ~/.kube/config."""
    if explicit is not None:
        return [explicit]
    named = list(dict.fromkeys(part for part in variable.split(os.pathsep) if part))
    return [Path(part) for part in named] if named else [home / ".kube" / "config"]


def load(paths: Sequence[Path], *, needed: bool = False) -> Kubeconfig:
    """Reads and merges files; those that are not there are passed over, unless they are `needed`. KubeconfigError."""
    found: list[tuple[Path, str]] = []
    for path in paths:
        try:
            if path.stat().st_size > SIZE_MAX:
                raise KubeconfigError(f"{path}: too large for a kubeconfig: name another file")
            found.append((path, path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            if needed:
                raise KubeconfigError(f"{path}: there is no such file: name another kubeconfig") from None
        except UnicodeDecodeError:
            raise KubeconfigError(f"{path}: is no text in UTF-8: name another kubeconfig") from None
        except OSError as error:
            raise KubeconfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not found:
        names = ", ".join(map(str, paths)) or "none was named"
        raise KubeconfigError(f"there is no kubeconfig ({names}): name one with --kubeconfig")
    return merge(found)


def merge(sources: Sequence[tuple[Path, str]]) -> Kubeconfig:
    """Merges texts, each with the path of its file: of several entries of one name the first counts, whole; and the
    first current-context. KubeconfigError."""
    current = ""
    found: dict[str, dict[str, Entry]] = {section: {} for section in _ONE}
    for path, text in sources:
        document = _document(path, text)
        told = document.get("current-context") or ""
        if not isinstance(told, str):
            raise KubeconfigError(f"{path}: current-context must be a string: put it in quotes")
        current = current or told
        for section, entries in found.items():
            for entry in _entries(path, section, document.get(section)):
                entries.setdefault(entry.name, entry)
    paths = tuple(path for path, _ in sources)
    return Kubeconfig(paths, current, found["clusters"], found["users"], found["contexts"])


def _document(path: Path, text: str) -> Object:
    try:
        document = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        # the message of a YAML error quotes the line, which may hold a secret
        mark = error.problem_mark
        line = f" at line {mark.line + 1}" if mark is not None else ""
        raise KubeconfigError(f"{path}: is no YAML{line}: correct it, or fetch it anew") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise KubeconfigError(f"{path}: is no YAML: correct it, or fetch it anew") from None
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: is no kubeconfig: it must have clusters, users and contexts")
    if document.get("kind") not in (None, "Config") or document.get("apiVersion") not in (None, "v1"):
        raise KubeconfigError(f"{path}: is no kubeconfig: it must have 'apiVersion: v1' and 'kind: Config'")
    return document


def _entries(path: Path, section: str, rows: Any) -> Iterable[Entry]:
    one = _ONE[section]
    if rows is None:
        return
    if not isinstance(rows, list):
        raise KubeconfigError(f"{path}: {section} must be a list of 'name: …' with '{one}: …'")
    for number, row in enumerate(rows):
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(name, str) or not name:
            raise KubeconfigError(f"{path}: {section}[{number}] has no name: add 'name: …'")
        body = row.get(one)
        if not isinstance(body, dict | None):
            raise KubeconfigError(f"{path}: {one} '{name}': '{one}:' must hold fields, not a single value")
        yield Entry(name, path, one, body or {})


def _cluster(entry: Entry) -> dict[str, Any]:
    """The fields of an Access that a cluster tells."""
    server = entry.text("server")
    if not server.startswith(("https://", "http://")):
        raise KubeconfigError(f"{entry}: server is no URL: write 'server: https://HOST:PORT'")
    ca = entry.material("certificate-authority")
    verify = not entry.flag("insecure-skip-tls-verify")
    if ca and not verify:
        raise KubeconfigError(
            f"{entry}: has a certificate-authority and insecure-skip-tls-verify, of which only one can count: "
            "remove insecure-skip-tls-verify"
        )
    proxy = entry.text("proxy-url")
    if proxy:
        check_proxy(proxy, f"{entry}: proxy-url")
    return {
        "server": server,
        "ca": ca,
        "verify": verify,
        "server_name": entry.text("tls-server-name"),
        "proxy": proxy,
        "compression": not entry.flag("disable-compression"),
    }


def check_proxy(url: str, where: str) -> None:
    """KubeconfigError for a proxy of a kind that cannot be used."""
    if url.startswith(("socks5://", "socks5h://")):
        raise KubeconfigError(f"{where}: SOCKS proxies are not supported: use an http:// or https:// proxy")
    if not url.startswith(("http://", "https://")):
        raise KubeconfigError(f"{where}: is no URL of a proxy: write http://HOST:PORT")


def _login(entry: Entry, cluster: Mapping[str, Any], place: Entry) -> Login:
    if entry.body.get("auth-provider"):
        told = entry.body["auth-provider"]
        name = told.get("name") if isinstance(told, dict) else ""
        raise KubeconfigError(
            f"{entry}: auth-provider {name!r} was removed from Kubernetes in 1.26: use an exec credential plugin "
            "(for example gke-gcloud-auth-plugin, kubelogin)"
        )
    plugin = _plugin(entry, cluster, place)
    token, file, user = entry.text("token"), entry.text("tokenFile"), entry.text("username")
    methods = [name for name, told in (("token", token or file), ("username", user), ("exec", plugin)) if told]
    if len(methods) > 1:
        raise KubeconfigError(f"{entry}: has {' and '.join(methods)}: keep one of them")
    certificate, key = entry.material("client-certificate"), entry.material("client-key")
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise KubeconfigError(f"{entry}: {missing} is missing: a certificate needs its key, add {missing}-data")
    path = entry.path.parent / file if file else None
    return Login(certificate, key, token, path, user, entry.text("password"), plugin)


def _plugin(entry: Entry, cluster: Mapping[str, Any], place: Entry) -> Plugin | None:
    told = entry.body.get("exec")
    if told is None:
        return None
    if not isinstance(told, dict):
        raise KubeconfigError(f"{entry}: exec must hold fields: command, args, apiVersion")
    inner = Entry(entry.name, entry.path, f"exec of {entry.what}", told)
    command, version = inner.text("command"), inner.text("apiVersion")
    if not command:
        raise KubeconfigError(f"{inner}: names no command: add 'command: PROGRAM'")
    if version not in PLUGIN_VERSIONS:
        raise KubeconfigError(
            f"{inner}: apiVersion {version!r} is not supported: use {PLUGIN_VERSIONS[0]}, and a plugin that knows it"
        )
    mode = inner.text("interactiveMode") or ("IfAvailable" if version == PLUGIN_VERSIONS[1] else "")
    if mode not in MODES:
        raise KubeconfigError(f"{inner}: interactiveMode must be one of {', '.join(MODES)}")
    env = []
    for row in told.get("env") or ():
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise KubeconfigError(f"{inner}: env must be a list of 'name: …' and 'value: …'")
        env.append((row["name"], str(row.get("value") or "")))
    if os.sep in command:
        command = str(entry.path.parent / command)
    info = _told_cluster(cluster, place) if inner.flag("provideClusterInfo") else None
    hint = inner.text("installHint").strip()
    return Plugin(command, inner.texts("args"), tuple(env), version, mode, hint, info, str(inner))


def _told_cluster(cluster: Mapping[str, Any], place: Entry) -> Object:
    """What a plugin is told of the cluster (ExecCredential spec.cluster)."""
    info: Object = {"server": cluster["server"]}
    if cluster["server_name"]:
        info["tls-server-name"] = cluster["server_name"]
    if not cluster["verify"]:
        info["insecure-skip-tls-verify"] = True
    if cluster["ca"]:
        info["certificate-authority-data"] = base64.b64encode(cluster["ca"]).decode()
    if cluster["proxy"]:
        info["proxy-url"] = cluster["proxy"]
    if not cluster["compression"]:
        info["disable-compression"] = True
    extensions = [row for row in place.body.get("extensions") or () if isinstance(row, dict)]
    config = next((row.get("extension") for row in extensions if row.get("name") == EXTENSION), None)
    if config is not None:
        info["config"] = config
    return info


def _acting(entry: Entry) -> Acting:
    extra = entry.body.get("as-user-extra") or {}
    if not isinstance(extra, dict) or not all(isinstance(values, list) for values in extra.values()):
        raise KubeconfigError(f"{entry}: as-user-extra must map names to lists of strings")
    user, uid, groups = entry.text("as"), entry.text("as-uid"), entry.texts("as-groups")
    if (uid or groups or extra) and not user:
        raise KubeconfigError(f"{entry}: as-uid, as-groups and as-user-extra need a user to act as: add 'as: NAME'")
    return Acting(user, uid, groups, {str(name): tuple(map(str, values)) for name, values in extra.items()})
