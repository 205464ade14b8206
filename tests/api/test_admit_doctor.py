"""`dashpot doctor --webhooks`: settings by a table; rates against real webhooks behind a real API server."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.api.admit_kit import Answer, Authority, Object, configuration, webhook

from dashpot.cli import main as dashpot
from dashpot.model.objects.registry import builtin
from dashpot.runtime.api.admit.hooks import compile_hook
from dashpot.runtime.api.apiserver import ApiServer
from dashpot.runtime.api.settings import Settings
from dashpot.runtime.client.kubeconfig import load as read_kubeconfig
from dashpot.runtime.doctor.cluster import HttpCluster, Reply
from dashpot.runtime.doctor.counters import Counts, read
from dashpot.runtime.doctor.dangers import Setting, examine
from dashpot.runtime.doctor.load import Figures, load, outcome
from dashpot.runtime.doctor.samples import BODIES, Surroundings, baseline, candidates
from dashpot.runtime.doctor.webhooks import Measure, Profile, Report, profile

NAMESPACES = {n: {"kubernetes.io/metadata.name": n} for n in ("default", "kube-system", "hooks")}
RESOURCES = [r for r in builtin().resources if r.group in {group for group, _ in BODIES}]
AROUND = Surroundings(RESOURCES, NAMESPACES, {})
EXEMPT = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]}
PODS = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}


def rule(group: str, *resources: str, operations: tuple[str, ...] = ("CREATE", "UPDATE")) -> Object:
    return {"operations": list(operations), "apiGroups": [group], "apiVersions": ["*"], "resources": list(resources)}


def setting(**source: Any) -> Setting:
    """A webhook without anything to complain about, but for what is given."""
    whole = {
        "name": "h.x.y",
        "clientConfig": {"url": "https://x"},
        "rules": [rule("", "configmaps")],
        "namespaceSelector": EXEMPT,
        "sideEffects": "None",
        **source,
    }
    return Setting("Validating", compile_hook("conf", 0, whole), whole)


def service(namespace: str = "hooks") -> Object:
    return {"service": {"namespace": namespace, "name": "hook"}}


@pytest.mark.parametrize(
    ("source", "services", "found"),
    [
        ({}, {}, []),
        ({"namespaceSelector": {}}, {}, [("danger", "kube-system")]),
        ({"namespaceSelector": {}, "failurePolicy": "Ignore"}, {}, []),
        ({"namespaceSelector": {}, "objectSelector": {"matchLabels": {"a": "b"}}}, {}, []),
        ({"timeoutSeconds": 30}, {}, [("warning", "timeout")]),
        ({"sideEffects": "Unknown"}, {}, [("warning", "side-effects")]),
        ({"rules": [rule("*", "*")]}, {}, [("danger", "everything")]),
        ({"rules": [rule("*", "*")], "failurePolicy": "Ignore"}, {}, [("warning", "everything")]),
        ({"rules": [rule("coordination.k8s.io", "leases")]}, {}, [("danger", "heartbeats")]),
        ({"rules": [rule("", "events", "nodes/status")]}, {}, [("danger", "heartbeats")] * 2),
        (
            {"rules": [PODS], "clientConfig": service()},
            {"hooks/hook": True},
            [("danger", "self-blocking")],
        ),
        ({"rules": [PODS], "clientConfig": service("kube-system")}, {"kube-system/hook": True}, []),
        ({"clientConfig": service()}, {}, [("danger", "no-service")]),
        ({"clientConfig": service()}, {"hooks/hook": False}, [("danger", "no-endpoints")]),
    ],
)
def test_dangerous_settings(source: Object, services: dict[str, bool], found: list[tuple[str, str]]) -> None:
    rows = examine([setting(**source)], AROUND, services)
    assert [(row.severity, row.code) for row in rows] == found
    assert all(row.text and row.fix for row in rows)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({}, "CREATE configmaps in default"),
        ({"rules": [rule("*", "*")]}, "CREATE configmaps in default"),
        ({"rules": [rule("apps", "deployments")]}, "CREATE deployments.apps in default"),
        (
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "hooks"}}},
            "CREATE configmaps in hooks",
        ),
        (
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
            "CREATE configmaps in default",
        ),
        ({"rules": [rule("", "namespaces")], "namespaceSelector": {}}, "CREATE namespaces"),
        ({"rules": [rule("", "pods/exec")]}, None),
        ({"namespaceSelector": {"matchLabels": {"no": "such"}}}, None),
    ],
)
def test_what_is_written(source: Object, text: str | None) -> None:
    one = setting(**source)
    first = next(candidates(one.hook, one.source, AROUND), None)
    assert (None if first is None else first.text) == text


def test_existing_objects_serve_where_new_ones_do_not() -> None:
    one = setting(rules=[rule("", "configmaps", operations=("UPDATE",))])
    existing = {("", "configmaps"): [{"metadata": {"name": "a", "namespace": "default"}}]}
    (sample,) = candidates(one.hook, one.source, Surroundings(RESOURCES, NAMESPACES, existing))
    assert (sample.method, sample.path) == ("PATCH", "/api/v1/namespaces/default/configmaps/a")


def test_baseline_is_seen_by_no_webhook() -> None:
    everything = setting(rules=[rule("*", "*")], namespaceSelector={}).hook
    found = baseline([everything], AROUND)
    assert found is not None
    assert found.path == "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    found = baseline([setting().hook], AROUND)
    assert found is not None and found.text == "CREATE configmaps in kube-system"


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (201, "", "answered"),
        (400, 'admission webhook "x" denied the request: no', "denied"),
        (500, 'failed calling webhook "x": failed to call webhook: Post "u": context deadline exceeded', "timeout"),
        (500, 'failed calling webhook "x": failed to call webhook: Post "u": EOF', "failed"),
        (429, "", "throttled"),
        (422, "is invalid", "refused"),
        (504, "", "timeout"),
    ],
)
def test_outcomes(code: int, message: str, kind: str) -> None:
    assert outcome(Reply(code, {"message": message}, 0.0)) == kind


def test_quantiles() -> None:
    figures = Figures(1.0, tuple(n / 100 for n in range(100)), Counter(answered=100))
    assert (figures.quantile(0.5), figures.quantile(0.99), figures.sent) == (0.5, 0.99, 100)
    assert Figures(1.0, ()).quantile(0.5) == 0.0


def test_waiting_counts_from_when_a_request_was_due() -> None:
    """A server that stalls once delays all that were due meanwhile: an open loop sees that."""

    async def main() -> Figures:
        gate = asyncio.Lock()

        async def send() -> Reply:
            async with gate:
                await asyncio.sleep(0.02)
            return Reply(201, {}, 0.0)

        return await load(send, 200.0, 0.1)

    figures = asyncio.run(main())
    assert figures.sent == 20
    assert figures.quantile(0.0) < 0.1 < figures.quantile(0.99)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(Path(tmp_path_factory.mktemp("pki")))


def on_a_cluster(tmp_path: Path, examine_it: Callable[[HttpCluster], Any], *configurations: Object) -> Any:
    """What an examination finds on an API server with these webhooks."""

    async def main() -> Any:
        server = await ApiServer.start(Settings(store="memory", port=0, data=tmp_path / "data"))
        try:
            path = tmp_path / "kubeconfig"
            server.write_kubeconfig(path)
            cluster = HttpCluster(read_kubeconfig([path]).access())
            try:
                for one in configurations:
                    plural = f"{one['kind'].lower()}s"
                    made = await cluster.call("POST", f"/apis/admissionregistration.k8s.io/v1/{plural}", one)
                    assert made.code == 201, made.body
                return await examine_it(cluster)
            finally:
                await cluster.close()
        finally:
            await server.stop()

    return main()


def hook(name: str, authority: Authority, port: int, resource: str, **rest: Any) -> Object:
    found = configuration("Validating", authority, port, name=f"{name}.x.y", namespaceSelector=EXEMPT, **rest)
    found["metadata"]["name"] = name
    found["webhooks"][0]["rules"][0]["resources"] = [resource]
    return found


def serial(seconds: float) -> Answer:
    """A webhook that answers one at a time: fast when idle, slow when busy."""
    gates: list[asyncio.Lock] = []

    async def answer(request: Object) -> Object:
        if not gates:
            gates.append(asyncio.Lock())
        async with gates[0]:
            await asyncio.sleep(seconds)
        return {"allowed": True}

    return answer


async def at_once(request: Object) -> Object:
    return {"allowed": True}


def slow_when_busy(
    authority: Authority, tmp_path: Path, rates: tuple[float, ...], seconds: float, each: float
) -> Report:
    """A report on a hook that answers at once and one that answers one at a time."""

    async def main() -> Report:
        async with webhook(authority, at_once) as fast, webhook(authority, serial(each)) as slow:
            hooks = (hook("fast", authority, fast, "secrets"), hook("slow", authority, slow, "configmaps"))
            found: Report = await on_a_cluster(tmp_path, lambda c: profile(c, rates, seconds, slow_s=0.3), *hooks)
            return found

    report = asyncio.run(main())
    assert not report.healthy
    by_name = {p.setting.hook.name: p for p in report.profiles}
    assert all(measure.added(0.5) < 0.3 for measure in by_name["fast.x.y"].measures)
    measures = by_name["slow.x.y"].measures
    assert measures[0].added(0.5) < 0.3 < measures[-1].added(0.99)
    (finding,) = [finding for finding in report.findings if finding.webhook == "slow.x.y"]
    assert finding.code == "slow"
    assert f"at {rates[-1]:g} writes a second" in finding.text and "at 5 it was" in finding.text
    return report


def test_finds_the_hook_that_is_fast_at_5_and_slow_at_60(authority: Authority, tmp_path: Path) -> None:
    slow_when_busy(authority, tmp_path, (5.0, 60.0), 0.8, 0.05)


def test_dead_hook_is_not_asked_faster_and_faster(authority: Authority, tmp_path: Path) -> None:
    dead = hook("dead", authority, 1, "configmaps")
    dead["webhooks"][0]["timeoutSeconds"] = 1
    report: Report = asyncio.run(on_a_cluster(tmp_path, lambda c: profile(c, (5.0, 50.0), 0.4), dead))
    (made,) = report.profiles
    assert len(made.measures) == 1 and made.measures[0].figures.bad == 2
    (finding,) = report.findings
    assert (finding.severity, finding.code) == ("danger", "no-answer")
    assert "failed calling webhook" in finding.text


@pytest.mark.parametrize(("hangs", "severity"), [(False, "warning"), (True, "danger")])
def test_dead_hook_that_need_not_answer(authority: Authority, tmp_path: Path, hangs: bool, severity: str) -> None:
    """Ignore lets writes through: a refused connection costs little, a silent one its time-out; neither is healthy."""

    async def main() -> Report:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            dead = hook(
                "dead", authority, silent.getsockname()[1] if hangs else 1, "configmaps", failurePolicy="Ignore"
            )
            dead["webhooks"][0]["timeoutSeconds"] = 1
            found: Report = await on_a_cluster(tmp_path, lambda c: profile(c, (5.0,), 0.4, slow_s=0.5), dead)
            return found

    report = asyncio.run(main())
    (made,) = report.profiles
    assert made.measures[0].figures.bad == 0 and made.measures[0].failed_open == 2
    assert report.sick and not report.healthy
    (finding,) = report.findings
    assert (finding.severity, finding.code) == (severity, "no-answer")
    assert "2 of 2 got no answer and went on without it after" in finding.text


def test_hooks_of_one_write_are_told_apart(authority: Authority, tmp_path: Path) -> None:
    """Both are asked about every ConfigMap: only the slow one is charged with the time."""

    async def main() -> Report:
        async with webhook(authority, at_once) as fast, webhook(authority, serial(0.7)) as slow:
            hooks = (hook("fast", authority, fast, "configmaps"), hook("slow", authority, slow, "configmaps"))
            found: Report = await on_a_cluster(tmp_path, lambda c: profile(c, (2.0,), 1.0, slow_s=0.4), *hooks)
            return found

    report = asyncio.run(main())
    assert [(one.setting.hook.name, one.slow(0.4), one.shared) for one in report.profiles] == [
        ("fast.x.y", False, ("slow.x.y",)),
        ("slow.x.y", True, ("fast.x.y",)),
    ]
    assert [finding.webhook for finding in report.findings] == ["slow.x.y"] and not report.unknown


PAGE = """\
# HELP apiserver_admission_webhook_fail_open_count x
apiserver_admission_webhook_fail_open_count{name="h",type="validating"} 3.0
apiserver_admission_webhook_admission_duration_seconds_bucket{le="0.1",name="h",operation="CREATE",rejected="false",type="validating"} 10
apiserver_admission_webhook_admission_duration_seconds_bucket{le="0.5",name="h",operation="CREATE",rejected="false",type="validating"} 20
apiserver_admission_webhook_admission_duration_seconds_bucket{le="+Inf",name="h",operation="CREATE",rejected="false",type="validating"} 20
apiserver_admission_webhook_admission_duration_seconds_bucket{le="0.1",name="h",operation="UPDATE",rejected="true",type="validating"} 5
apiserver_admission_webhook_admission_duration_seconds_bucket{le="+Inf",name="h",operation="UPDATE",rejected="true",type="validating"} nonsense
"""  # noqa: E501


def test_counts_of_an_api_server() -> None:
    counts = read(PAGE)["validating", "h"]
    assert (counts.failed_open, counts.calls, dict(counts.buckets)) == (3, 20, {0.1: 15, 0.5: 20, float("inf"): 20})
    assert counts.quantile(0.5) == pytest.approx(0.1 * 10 / 15)
    assert counts.quantile(0.95) == pytest.approx(0.1 + 0.4 * 4 / 5)
    later = counts.since(Counts(1, {0.1: 15}))
    assert (later.failed_open, later.calls) == (2, 20) and later.quantile(0.5) == pytest.approx(0.3)
    assert Counts().quantile(0.5) == 0.0


def taken(seconds: float, **outcomes: int) -> Figures:
    return Figures(5.0, (seconds,) * 10, Counter(outcomes or {"answered": 10}))


@pytest.mark.parametrize(
    ("measure", "why"),
    [
        (Measure(taken(0.05), taken(0.01)), ""),
        (Measure(taken(2.0), taken(1.5)), "saturated"),
        (Measure(taken(0.05), taken(0.01, answered=5, throttled=5)), "5 of 10 writes without webhooks failed"),
        (Measure(taken(0.5), taken(0.01), "h", alone=False), "cannot separate"),
        (Measure(taken(0.5), taken(0.01), "h", False, Counts(0, {0.005: 9})), ""),
        (Measure(Figures(5.0, (1.0,), Counter(failed=1), "x", Counter(other=1)), taken(0.01), "h", False), "other we"),
        (Measure(Figures(5.0, (1.0,), Counter(failed=1), "x", Counter(h=1)), taken(0.01), "h", False), ""),
    ],
)
def test_what_cannot_be_told_is_said(measure: Measure, why: str) -> None:
    assert (measure.unknown(0.1) == "") is (why == "") and why in measure.unknown(0.1)
    report = Report((5.0,), 1.0, 0.1, profiles=(Profile(setting(), None, measures=(measure,)),))
    assert report.sick is (measure.bad > 0) and len(report.unknown) == bool(why)


def test_command(authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    words = ["doctor", "--webhooks", "--kubeconfig", str(kubeconfig), "--qps", "5", "--duration", "300ms"]

    async def main() -> tuple[int, int]:
        async with webhook(authority, serial(0.05)) as port:
            one = hook("fast", authority, port, "configmaps")

            async def examine_it(cluster: HttpCluster) -> tuple[int, int]:
                text = await asyncio.to_thread(dashpot, [*words, "--slow", "30s"])
                return text, await asyncio.to_thread(dashpot, [*words, "-o", "json", "--slow", "5ms"])

            found: tuple[int, int] = await on_a_cluster(tmp_path, examine_it, one)
            return found

    text, slow = asyncio.run(main())
    assert (text, slow) == (0, 1)
    out = capsys.readouterr().out
    table, _, document = out.partition("{")
    assert "fast.x.y" in table and "healthy: no webhook adds more than" in table
    answer = json.loads("{" + document)
    assert answer["webhooks"][0]["write"] == "CREATE configmaps in default"
    assert answer["webhooks"][0]["rates"][0]["answered"] == 2


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["doctor", "--window", "1h"], 2, "--window is more than ten minutes"),
        (["doctor", "--webhooks", "--qps", "a"], 2, "is no list of rates"),
        (["doctor", "--webhooks", "--kubeconfig", "/nonexistent/k"], 4, "there is no such file"),
    ],
)
def test_command_line(words: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dashpot(words) == status
    assert text in capsys.readouterr().err


def test_unreachable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k"
    path.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: b}}], "
        "clusters: [{name: b, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    assert dashpot(["doctor", "--webhooks", "--kubeconfig", str(path)]) == 4
    assert "cannot be reached" in capsys.readouterr().err
