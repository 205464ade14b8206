"""What follows from a definition: its status, its resources, scale and conversion."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.api.crd_kit import META, Object, definition

from dashpot.model.objects.status import StatusError
from dashpot.runtime.api.crd import controller
from dashpot.runtime.api.crd.conversion import convert


def test_names_are_accepted_or_refused() -> None:
    now = "2026-01-01T00:00:00Z"
    first = definition()
    assert controller.resources(first) == ()
    first["status"] = controller.conditions(first, [first], now)
    assert controller.established(first)
    assert first["status"]["storedVersions"] == ["v1"]
    assert first["status"]["acceptedNames"] == first["spec"]["names"]
    assert controller.conditions(first, [first], "2027-01-01T00:00:00Z") == first["status"]
    second = definition()
    second["metadata"]["name"] = "bars.example.com"
    second["spec"]["names"] = {"plural": "bars", "singular": "bar", "kind": "Foo", "listKind": "BarList"}
    second["status"] = controller.conditions(second, [first, second], now)
    rows = {row["type"]: row for row in second["status"]["conditions"]}
    assert (rows["NamesAccepted"]["status"], rows["NamesAccepted"]["reason"]) == ("False", "KindConflict")
    assert rows["NamesAccepted"]["message"] == '"Foo" is already in use'
    assert rows["Established"]["status"] == "False"
    assert controller.resources(second) == ()


def test_what_a_definition_adds_to_the_catalog() -> None:
    made = definition(
        subresources={"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}}
    )
    made["status"] = controller.conditions(made, [], "2026-01-01T00:00:00Z")
    (resource,) = controller.resources(made)
    assert (resource.group, resource.version, resource.kind, resource.plural) == ("example.com", "v1", "Foo", "foos")
    assert (resource.singular, resource.short_names, resource.categories) == ("foo", ("fo",), ("all",))
    assert [(sub.name, sub.group, sub.kind) for sub in resource.subresources] == [
        ("status", "example.com", "Foo"),
        ("scale", "autoscaling", "Scale"),
    ]
    assert resource.custom and resource.namespaced
    assert list(controller.schemas(made)) == ["v1"]


class Webhook:
    """A conversion webhook of the tests: what `answer` makes of a request."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def call(self, client_config: Object, review: Object) -> Object:
        request = review["request"]
        good = {
            "uid": request["uid"],
            "result": {"status": "Success"},
            "convertedObjects": [{**obj, "apiVersion": request["desiredAPIVersion"]} for obj in request["objects"]],
        }
        found: Object = {"response": self.answer(good)}
        return found


def converted(answer: Any = None, strategy: str = "Webhook") -> list[Object]:
    made = definition()
    made["spec"]["conversion"] = {"strategy": strategy, "webhook": {"clientConfig": {"url": "https://x"}}}
    objects = [{**META, "apiVersion": f"example.com/{version}"} for version in ("v1", "v2")]
    return asyncio.run(convert(made, objects, "v2", None if answer is None else Webhook(answer)))


def test_conversion() -> None:
    assert [obj["apiVersion"] for obj in converted(strategy="None")] == ["example.com/v2"] * 2
    assert [obj["apiVersion"] for obj in converted(lambda good: good)] == ["example.com/v2"] * 2


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda good: {**good, "uid": "x"}, "expected response.uid"),
        (lambda good: {**good, "result": {"status": "Failure", "message": "no"}}, "failed: no"),
        (lambda good: {**good, "convertedObjects": []}, "webhook returned 0 objects, expected 1"),
        (lambda good: {**good, "convertedObjects": [{}]}, "invalid groupVersion"),
        (lambda good: {**good, "convertedObjects": [{**good["convertedObjects"][0], "kind": "X"}]}, "invalid kind"),
        (
            lambda good: {**good, "convertedObjects": [{**good["convertedObjects"][0], "metadata": {"name": "z"}}]},
            "must have the same name",
        ),
        (lambda good: None, "no response"),
    ],
)
def test_a_webhook_that_converts_wrongly(answer: Any, expected: str) -> None:
    with pytest.raises(StatusError) as raised:
        converted(answer)
    assert raised.value.code == 500
    assert raised.value.message.startswith("Internal error occurred: conversion webhook for example.com") or (
        raised.value.message.startswith("conversion webhook for example.com, Kind=Foo failed: ")
    )
    assert expected in raised.value.message
