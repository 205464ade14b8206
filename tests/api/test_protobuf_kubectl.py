"""kubectl itself against discovery, OpenAPI and the protobuf decoder, on a server that records what it sends."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.api.recording import Recorder, cron_tab, kubectl, kubectls, recording

from dashpot.runtime.api.catalog import Catalog
from dashpot.runtime.api.protobuf import CONTENT_TYPE

Object = dict[str, Any]

KUBECTLS = kubectls()
pytestmark = pytest.mark.skipif(not KUBECTLS, reason="no kubectl beside this Python or on the path")

CREATES = [
    "create namespace x",
    "create serviceaccount x",
    "create configmap x --from-literal=a=b --from-literal=c=",
    "create secret generic x --from-literal=a=b --type=example.com/t",
    "create secret docker-registry x --docker-username=u --docker-password=p --docker-server=example.com",
    "create quota x --hard=cpu=1,pods=2,requests.memory=1Gi --scopes=BestEffort",
    "create deployment x --image=example.com/a:1 --replicas=0 --port=80",
    "create deployment x --image=a --image=b --replicas=3",
    "create deployment x --image=a -- run it",
    "create job x --image=a -- sh -c true",
    "create cronjob x --image=a --schedule='*/5 * * * *' --restart=OnFailure",
    "create service clusterip x --tcp=80:8080",
    "create service clusterip x --clusterip=None",
    "create service nodeport x --tcp=80:web --node-port=30080",
    "create service loadbalancer x --tcp=5678:8080",
    "create service externalname x --external-name=example.com",
    "create ingress x --class=c --rule='h.example.com/p*=svc:80,tls=t' --annotation=a=b",
    "create poddisruptionbudget x --selector=a=b --min-available=50%",
    "create poddisruptionbudget x --selector=a=b --max-unavailable=1",
    "create priorityclass x --value=1000 --global-default=true --description=d --preemption-policy=Never",
    "create role x --verb=get,list --resource=pods,deployments.apps --resource-name=n",
    "create clusterrole x --verb=get --non-resource-url=/healthz",
    "create clusterrole x --aggregation-rule=a=b",
    "create rolebinding x --clusterrole=view --user=u --group=g --serviceaccount=n:s",
    "create clusterrolebinding x --clusterrole=view --user=u",
    "autoscale deployment x --min=1 --max=3",
]

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x", "namespace": "default"}}


@pytest.fixture(scope="module", params=sorted(KUBECTLS))
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Recorder]]:
    catalog = Catalog()
    catalog.add("example.com", [cron_tab("v1")], {"v1": {"type": "object", "description": "A table of times."}})
    home: Path = tmp_path_factory.mktemp("home")
    with recording(catalog) as recorder:
        recorder.stored["/apis/apps/v1/namespaces/default/deployments/x"] = DEPLOYMENT

        def run(line: str, text: str = "") -> Any:
            recorder.asked.clear()
            recorder.written.clear()
            return kubectl(KUBECTLS[request.param], recorder.url, home, *shlex.split(line), text=text)

        yield run, recorder


def settled(value: Any) -> Any:
    """Without nulls, which say the same as nothing."""
    if isinstance(value, dict):
        return {key: settled(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [settled(part) for part in value]
    return value


@pytest.mark.parametrize("line", CREATES, ids=lambda line: " ".join(line.split()[:3]))
def test_protobuf_says_what_the_dry_run_says(client: tuple[Any, Recorder], line: str) -> None:
    run, recorder = client
    words = line.split(" -- ")
    options = " --dry-run=client -o json"
    dry = run(" -- ".join([words[0] + options, *words[1:]]))
    done = run(line)
    assert done.returncode == dry.returncode == 0, done.stderr + dry.stderr
    ((content, sent),) = recorder.written
    assert content == CONTENT_TYPE
    expected = settled(msgspec.json.decode(dry.stdout))
    for found in (expected, sent):
        found["metadata"].pop("namespace", None)
    assert sent == expected


@pytest.mark.parametrize(
    ("line", "kind", "spec"),
    [
        ("create token x --duration=600s", "TokenRequest", {"expirationSeconds": 600}),
        (
            "auth can-i list pods -n n",
            "SelfSubjectAccessReview",
            {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "n"}},
        ),
        ("auth can-i --list", "SelfSubjectRulesReview", {"namespace": "default"}),
    ],
)
def test_reviews(client: tuple[Any, Recorder], line: str, kind: str, spec: Object) -> None:
    run, recorder = client
    run(line)
    content, sent = recorder.written[-1]
    assert content == CONTENT_TYPE and sent["kind"] == kind
    found = sent["spec"]
    for key, value in spec.items():
        assert found[key] == value or value.items() <= found[key].items()


def test_cold_start_asks_discovery_twice(client: tuple[Any, Recorder], tmp_path: Path) -> None:
    run, recorder = client
    run(f"get ns --cache-dir={tmp_path}")
    assert [line for line in recorder.asked if "/api" in line and "namespaces" not in line] == ["GET /api", "GET /apis"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("api-resources", "horizontalpodautoscalers"),
        ("api-resources --api-group=example.com", "ct"),
        ("api-versions", "example.com/v1"),
        ("explain pod.spec.containers.ports", "containerPort"),
        ("explain deployment --recursive", "revisionHistoryLimit"),
        ("explain crontab", "A table of times."),
        ("explain deploy.spec.strategy --output=plaintext-openapiv2", "rollingUpdate"),
        ("explain crontab --output=plaintext-openapiv2", "A table of times."),
    ],
)
def test_reading(client: tuple[Any, Recorder], line: str, says: str) -> None:
    run, _ = client
    done = run(line)
    assert done.returncode == 0 and says in done.stdout, done.stderr


MAP = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}}'
TAB = '{"apiVersion": "example.com/v1", "kind": "CronTab", "metadata": {"name": "a"}}'


@pytest.mark.parametrize("verb", ["create", "apply", "apply --server-side"])
@pytest.mark.parametrize("text", [MAP, TAB, f'{{"apiVersion": "v1", "kind": "List", "items": [{MAP}, {TAB}]}}'])
def test_documents_and_lists_are_validated_by_the_server(client: tuple[Any, Recorder], verb: str, text: str) -> None:
    run, recorder = client
    done = run(f"{verb} -f -", text)
    assert done.returncode == 0, done.stderr
    assert recorder.written
