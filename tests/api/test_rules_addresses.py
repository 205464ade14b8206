"""Addresses that Services, Endpoints and EndpointSlices may not send anybody to."""

from __future__ import annotations

from typing import Any

import pytest
from tests.api.rule_kit import told

Object = dict[str, Any]
SERVICE, SLICE = "services", "discovery.k8s.io/endpointslices"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("::", "may not be unspecified (::)"),
        ("127.1.2.3", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("::1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("::ffff:127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("169.254.169.254", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("fe80::1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("224.0.0.251", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
        ("ff02::1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
        ("224.0.1.1", ""),
        ("ff05::1", ""),
        ("010.0.0.1", ""),
        ("192.168.0.1", ""),
        ("fd00::1", ""),
    ],
)
def test_special_addresses(address: str, text: str) -> None:
    four = "." in address
    for kind, path, more in (
        (SERVICE, "spec.externalIPs[0]", {"spec.externalIPs": [address]}),
        ("endpoints", "subsets[0].addresses[0].ip", {"subsets[0].addresses[0].ip": address}),
        (
            SLICE,
            "endpoints[0].addresses[0]",
            {"addressType": "IPv4" if four else "IPv6", "endpoints[0].addresses": [address]},
        ),
    ):
        expected = [f'{path}: Invalid value: "{address}": {text}'] if text else []
        assert told(kind, more) == expected, kind


def test_addresses_of_a_slice() -> None:
    def of(kind: str, address: str) -> list[str]:
        return told(SLICE, {"addressType": kind, "endpoints[0].addresses": [address]})

    path = "endpoints[0].addresses[0]"
    assert of("IPv4", "fd00::1") == [f'{path}: Invalid value: "fd00::1": must be a valid IPv4 address']
    assert of("IPv6", "10.0.0.1") == [f'{path}: Invalid value: "10.0.0.1": must be a valid IPv6 address']
    none = [f'{path}: Invalid value: "x": must be a valid {text}' for text in ("IPv4 address", "IP address")]
    assert of("IPv4", "x") == none
    assert of("IPv4", "9" * 1000)[0].endswith("must be a valid IPv4 address")
    assert of("FQDN", "a.example.com.") == []
    two = "should be a domain with at least two segments separated by dots"
    assert of("FQDN", "localhost") == [f'{path}: Invalid value: "localhost": {two}']
    assert of("FQDN", "") == [f"{path}: Required value"]
    own: Object = {"metadata": {"name": "kubernetes", "namespace": "default"}, "endpoints[0].addresses": ["127.0.0.1"]}
    own["metadata"]["labels"] = {"kubernetes.io/service-name": "kubernetes"}
    assert told(SLICE, own) == []
