"""Which proxy a server is reached by, as the variables http_proxy, https_proxy and no_proxy say.

Source: golang.org/x/net/http/httpproxy, which clients of Kubernetes go by.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from dashpot.runtime.client.kubeconfig import check_proxy


def proxy_for(server: str, environment: Mapping[str, str]) -> str:
    """The URL of the proxy for a server's URL; empty for none. KubeconfigError for a proxy that cannot be used."""
    parts = urlsplit(server)
    name = "https_proxy" if parts.scheme == "https" else "http_proxy"
    variable = name.upper() if environment.get(name.upper()) else name
    proxy = environment.get(variable, "")
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    exempt = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    if not proxy or _local(host) or passes(host, port, exempt):
        return ""
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    check_proxy(proxy, variable)
    return proxy


def _local(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def passes(host: str, port: int, exempt: str) -> bool:
    """Whether a no_proxy list exempts a host: `*`, addresses, CIDRs, names with their subdomains, `.names` without
    themselves; each may have a port."""
    address = _address(host)
    host = host.lower().rstrip(".")
    for row in exempt.split(","):
        rule = row.strip().lower()
        if not rule:
            continue
        if rule == "*":
            return True
        if "/" in rule:
            try:
                if address is not None and address in ipaddress.ip_network(rule, strict=False):
                    return True
            except ValueError:
                pass
            continue
        name, colon, number = rule.rpartition(":")
        if colon and number.isdigit() and (":" not in name or name.endswith("]")):
            if int(number) != port:
                continue
            rule = name
        wanted = _address(rule)
        if wanted is not None:
            if address == wanted:
                return True
            continue
        suffix = rule.removeprefix("*")
        if host.endswith(suffix if suffix.startswith(".") else f".{suffix}") or host == suffix:
            return True
    return False
