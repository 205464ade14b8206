"""What the pods of a Site are made of: computation that site.loop calls, without any API call."""

from typing import Any


def selector(site: Any) -> dict[str, Any]:
    return {"matchLabels": {"site": site.name}}


def template(site: Any) -> dict[str, Any]:
    mount = {"name": "page", "mountPath": "/usr/share/site"}
    container = {"name": "web", "image": site.json["spec"]["image"], "volumeMounts": [mount]}
    volume = {"name": "page", "configMap": {"name": site.name}}
    return {"metadata": {"labels": {"site": site.name}}, "spec": {"containers": [container], "volumes": [volume]}}
