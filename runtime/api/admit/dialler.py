"""Where a webhook listens: `url`, or a service of the cluster, with the CA that vouches for it.

Source: k8s.io/apiserver pkg/util/webhook/client.go and pkg/util/proxy, release 1.34.
"""

from __future__ import annotations

import base64
import binascii
import random
import ssl
from collections.abc import Iterator
from typing import Protocol
from urllib.parse import urlsplit

from attrs import frozen

from dashpot.runtime.api.admit.base import Object
from dashpot.runtime.api.view import View

CONTEXTS_MAX = 256
"""TLS contexts kept, one a CA bundle."""


class DialError(Exception):
    """A webhook that cannot be found; the text is for the user who waits for it."""


@frozen
class Target:
    """How to reach a webhook. `url` is where to connect to, `shown` how messages and the Host header name it."""

    url: str
    context: ssl.SSLContext
    server_name: str
    shown: str


class Dialler(Protocol):
    """Finds the webhook of a `clientConfig`; also used for conversion webhooks."""

    async def resolve(self, client_config: Object) -> Target:
        """Where to send the review; raises DialError."""
        ...


class ViewDialler:
    """Resolves services by the endpoints that the cache knows, as the API server of a cluster without proxy must."""

    def __init__(self, view: View, pick: random.Random | None = None) -> None:
        self._view = view
        self._pick = pick or random.Random()
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def resolve(self, client_config: Object) -> Target:
        """An address, a TLS context that trusts the bundle (the system's CAs without one), and the name to check."""
        context = self._context(client_config.get("caBundle") or "")
        url = client_config.get("url")
        if url:
            name = urlsplit(url).hostname or ""
            return Target(url, context, name, url)
        service = client_config.get("service")
        if not service:
            raise DialError("webhook configuration must have either service or URL")
        name, namespace = service.get("name") or "", service.get("namespace") or ""
        port = service.get("port") or 443
        path = str(service.get("path") or "")
        path = path if path.startswith("/") or not path else f"/{path}"
        host, real_port = self._endpoint(namespace, name, int(port))
        server_name = f"{name}.{namespace}.svc"
        bracketed = f"[{host}]" if ":" in host else host
        return Target(
            f"https://{bracketed}:{real_port}{path}", context, server_name, f"https://{server_name}:{port}{path}"
        )

    def _context(self, bundle: str) -> ssl.SSLContext:
        found = self._contexts.get(bundle)
        if found is None:
            if len(self._contexts) >= CONTEXTS_MAX:
                self._contexts.clear()
            try:
                pem = base64.b64decode(bundle).decode() if bundle else None
                found = ssl.create_default_context(cadata=pem)
            except (binascii.Error, UnicodeDecodeError, ssl.SSLError, ValueError) as error:
                raise DialError("unable to load root certificates: unable to parse bytes as PEM block") from error
            # Python 3.13 refuses CAs without key identifiers, which Go and many small webhooks' makers accept.
            found.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
            self._contexts[bundle] = found
        return found

    def _endpoint(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        service = self._view.get("", "services", namespace, name)
        if service is None:
            raise DialError(f'service "{name}" not found')
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return str(spec.get("externalName") or ""), port
        entry = next((p for p in spec.get("ports") or () if p.get("port") == port), None)
        if entry is None:
            raise DialError(f'no service port {port} found for service "{name}"')
        ready = list(self._addresses(namespace, name, entry))
        if ready:
            return self._pick.choice(ready)
        address = spec.get("clusterIP")
        if address and address != "None" and not self._known(namespace, name):
            return str(address), port
        raise DialError(f'no endpoints available for service "{name}"')

    def _slices(self, namespace: str, name: str) -> Iterator[Object]:
        for one in self._view.list("discovery.k8s.io", "endpointslices", namespace):
            if (one["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == name:
                yield one

    def _known(self, namespace: str, name: str) -> bool:
        """Whether anybody keeps endpoints of the service at all."""
        if any(True for _ in self._slices(namespace, name)):
            return True
        return self._view.get("", "endpoints", namespace, name) is not None

    def _addresses(self, namespace: str, name: str, entry: Object) -> Iterator[tuple[str, int]]:
        wanted = entry.get("name") or ""
        for one in self._slices(namespace, name):
            ports = [p["port"] for p in one.get("ports") or () if (p.get("name") or "") == wanted and p.get("port")]
            for endpoint in one.get("endpoints") or ():
                if (endpoint.get("conditions") or {}).get("ready") is not False:
                    yield from ((address, port) for address in endpoint.get("addresses") or () for port in ports)
        if any(True for _ in self._slices(namespace, name)):
            return
        old = self._view.get("", "endpoints", namespace, name) or {}
        for subset in old.get("subsets") or ():
            ports = [p["port"] for p in subset.get("ports") or () if (p.get("name") or "") == wanted]
            yield from ((a["ip"], port) for a in subset.get("addresses") or () for port in ports)
