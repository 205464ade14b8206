"""`dashpot doctor`: which loop of a cluster stopped making progress, and why; what its webhooks cost."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashpot.cli import console
from dashpot.cli.parser import seconds
from dashpot.cli.problem import HOLDS, OUTSIDE, UNKNOWN, VIOLATED, WRONG, Problem

if TYPE_CHECKING:
    from dashpot.runtime.client.access import Access
    from dashpot.runtime.doctor.diagnosis import Diagnosis
    from dashpot.runtime.doctor.webhooks import Measure, Profile, Report

SUMMARY = "which loop of a cluster stopped making progress, and why"
USAGE = "dashpot doctor [--webhooks] [options]"
DESCRIPTION = """\
Looks at a cluster twice and names what stops its loops, then each object that is stuck: who should act on it, what
that waits for, and the last error. What cannot be observed is listed, and never called fine. Nothing is stored.

With --webhooks: sends dry-run writes past every admission webhook of a cluster, at each of the rates in turn, and
compares them with writes that no webhook sees: what each adds to a write, where it does not answer, and which of
its settings can stop the cluster. Nothing is stored.

Exit status: 0 healthy, 1 something is wrong, slow or dangerous, 2 the command line is wrong, 3 not everything could be
found out, 4 the cluster cannot be asked.
"""
EXAMPLE = "  dashpot doctor\n  dashpot doctor --webhooks --qps 5,50,500 --kubeconfig ~/.kube/config -o json"

RATES_MAX = 10
RATE_MAX = 10_000.0
DURATION_MAX_S = 600.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--webhooks", action="store_true", help="examine admission webhooks alone, under load")
    parser.add_argument("--window", type=seconds, default=5.0, metavar="TIME", help="between two looks (default 5s)")
    parser.add_argument(
        "--metrics",
        action="append",
        type=_address,
        default=[],
        metavar="URL",
        help="figures of a controller beside the cluster, as of dashpot run --metrics-port; may be repeated",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say so where all is well")
    parser.add_argument("--qps", type=_rates, default=(5.0, 50.0, 500.0), metavar="N,…", help="default 5,50,500")
    parser.add_argument("--duration", type=seconds, default=3.0, metavar="TIME", help="of each rate (default 3s)")
    parser.add_argument(
        "--slow", type=seconds, default=0.1, metavar="TIME", help="what a webhook may add at p99 (default 100ms)"
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="default $KUBECONFIG, then dashpot's own")
    parser.add_argument("--context", default="", metavar="NAME", help="default the current one")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="how to print")


def _rates(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or len(found) > RATES_MAX or not all(0 < rate <= RATE_MAX for rate in found):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of rates: write 5,50,500")
    return found


def _address(text: str) -> str:
    from urllib.parse import urlsplit

    refusal = f"'{text}' is no URL: write http://127.0.0.1:8080/metrics"
    try:
        url = urlsplit(text)
        fine = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        raise argparse.ArgumentTypeError(refusal) from None
    if not fine:
        raise argparse.ArgumentTypeError(refusal)
    return text if url.path.strip("/") else f"{text.rstrip('/')}/metrics"


def run(args: argparse.Namespace) -> int:
    """Examines, prints, and says by the exit status whether all is well."""
    if args.window > DURATION_MAX_S:
        raise Problem(WRONG, "--window is more than ten minutes", "5s shows what there is to see")
    if args.duration > DURATION_MAX_S:
        raise Problem(WRONG, "--duration is more than ten minutes", "3s shows what there is to see")
    try:
        from dashpot.runtime.client.access import KubeconfigError, tls_context
        from dashpot.runtime.client.kubeconfig import load
    except ModuleNotFoundError as error:
        raise Problem(
            OUTSIDE, f"the Python package '{error.name}' is missing", "install them all: pip install 'dashpot[serve]'"
        ) from None
    try:
        access = load(_kubeconfigs(args.kubeconfig), needed=args.kubeconfig is not None).access(args.context)
        tls_context(access, access.login.certificate, access.login.key)
    except KubeconfigError as error:
        raise Problem(OUTSIDE, str(error), "name another one: --kubeconfig FILE") from None
    if not args.webhooks:
        return _told(asyncio.run(_diagnose(access, args)), args)
    report = asyncio.run(_examine(access, args))
    if args.output == "json":
        import msgspec

        console.out(msgspec.json.format(msgspec.json.encode(_json(report)), indent=2).decode())
    else:
        _print(report)
    if report.sick:
        return VIOLATED
    return UNKNOWN if report.unknown else HOLDS


def _kubeconfigs(given: Path | None) -> list[Path]:
    from dashpot.runtime.client.kubeconfig import search_path

    named, own = os.environ.get("KUBECONFIG", ""), Path(".dashpot/cluster/kubeconfig")
    if given is None and not named and own.exists():
        return [own]
    return search_path(given, named, Path.home())


async def _diagnose(access: Access, args: argparse.Namespace) -> Diagnosis:
    from dashpot.runtime.clock import SystemClock
    from dashpot.runtime.doctor.cluster import HttpCluster, Unreachable
    from dashpot.runtime.doctor.diagnosis import diagnose

    cluster = HttpCluster(access, os.environ, terminal=sys.stdin is not None and sys.stdin.isatty())
    try:
        return await diagnose(cluster, SystemClock(), args.window, pages=args.metrics)
    except Unreachable as error:
        raise Problem(OUTSIDE, str(error), "is the cluster up, and is it the right kubeconfig?") from None
    finally:
        await cluster.close()


def _told(found: Diagnosis, args: argparse.Namespace) -> int:
    """Prints a diagnosis; its exit status."""
    if args.output == "json":
        import attrs
        import msgspec

        shown = {
            "format": 1,
            "healthy": not found.sick and not found.unseen,
            "first": found.first or None,
            "causes": [attrs.asdict(one) for one in found.causes],
            "stuck": [attrs.asdict(one) for one in found.stuck],
            "unseen": list(found.unseen),
        }
        console.out(msgspec.json.format(msgspec.json.encode(shown), indent=2).decode())
    else:
        _print_diagnosis(found, args.verbose)
    return VIOLATED if found.sick else UNKNOWN if found.unseen else HOLDS


def _print_diagnosis(found: Diagnosis, verbose: bool) -> None:
    for cause in found.causes:
        console.out(f"{console.paint(cause.code, 'red')}: {cause.object}: {cause.text}")
        console.out(f"  fix: {cause.fix}")
    for one in found.stuck:
        what = f"{one.kind} {one.name}: {one.controller} waits for {one.waits_for}"
        console.out(f"{console.paint('not-settled', 'yellow')}: {what}")
        if one.error:
            console.out(f"  last error: {one.error}")
    for text in found.unseen:
        console.out(f"{console.paint('not observed', 'yellow')}: {text}")
    if verbose and not found.sick and not found.unseen:
        console.out("healthy: every loop makes progress")


async def _examine(access: Access, args: argparse.Namespace) -> Report:
    from dashpot.runtime.doctor.cluster import HttpCluster, Unreachable
    from dashpot.runtime.doctor.survey import Refused
    from dashpot.runtime.doctor.webhooks import profile

    cluster = HttpCluster(access, os.environ, terminal=sys.stdin is not None and sys.stdin.isatty())
    try:
        return await profile(
            cluster, args.qps, args.duration, args.slow, tell=lambda text: console.err(f"dashpot: {text}")
        )
    except Unreachable as error:
        raise Problem(OUTSIDE, str(error), "is the cluster up, and is it the right kubeconfig?") from None
    except Refused as error:
        raise Problem(OUTSIDE, f"the cluster refuses: {error}", "examine it as a cluster administrator") from None
    finally:
        await cluster.close()


def _ms(value: float) -> str:
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value * 1000:.0f} ms"


def _print(report: Report) -> None:
    if not report.profiles:
        console.out("there are no admission webhooks")
        return
    head = ["WEBHOOK", "WRITES/S", "P50", "P99", "ADDS P50", "ADDS P99", "TIME-OUTS", "ERRORS"]
    rows = [head, *(row for profile in report.profiles for row in _rows(profile))]
    if report.base_sample is not None:
        for figures in report.base:
            times = [_ms(figures.quantile(0.5)), _ms(figures.quantile(0.99))]
            rows.append(["(none)", f"{figures.rate:g}", *times, "", "", "", ""])
    for line in console.columns(rows, right=frozenset(range(1, 8))):
        console.out(line)
    for profile in report.profiles:
        name = f"{profile.setting.hook.name} ({profile.setting.kind.lower()}, {profile.setting.hook.configuration})"
        if profile.unmeasured:
            console.out(f"\n{name}: not measured: {profile.unmeasured}")
        elif profile.sample is not None:
            beside = f"; also asked: {', '.join(profile.shared)}" if profile.shared else ""
            console.out(f"\n{name}: {profile.sample.text}{beside}")
    _print_findings(report)


def _print_findings(report: Report) -> None:
    styles = {"danger": "red", "warning": "yellow"}
    if report.findings:
        console.out()
    for finding in report.findings:
        console.out(
            f"{console.paint(finding.severity, styles.get(finding.severity, ''))}: {finding.webhook}: {finding.text}"
        )
        console.out(f"  fix: {finding.fix}")
    if report.unknown:
        console.out()
    for text in report.unknown:
        console.out(f"{console.paint('unknown', 'yellow')}: {text}")
    if report.healthy:
        console.out(f"\nhealthy: no webhook adds more than {_ms(report.slow_s)} to a write")


def _rows(profile: Profile) -> list[list[str]]:
    rows = []
    for measure in profile.measures:
        figures = measure.figures
        errors = sum(figures.outcomes[kind] for kind in ("failed", "unreachable", "refused", "throttled"))
        errors += measure.failed_open
        rows.append(
            [
                profile.setting.hook.name,
                f"{figures.rate:g}",
                _ms(figures.quantile(0.5)),
                _ms(figures.quantile(0.99)),
                _ms(measure.added(0.5)),
                _ms(measure.added(0.99)),
                str(figures.outcomes["timeout"]),
                str(errors),
            ]
        )
    return rows


def _json(report: Report) -> dict[str, Any]:
    return {
        "format": 1,
        "healthy": report.healthy,
        "unknown": list(report.unknown),
        "rates": list(report.rates),
        "duration_s": report.seconds,
        "slow_ms": report.slow_s * 1000,
        "baseline": {
            "write": report.base_sample.text if report.base_sample is not None else None,
            "rates": [
                {"qps": f.rate, "sent": f.sent, "p50_ms": f.quantile(0.5) * 1000, "p99_ms": f.quantile(0.99) * 1000}
                for f in report.base
            ],
        },
        "webhooks": [_json_profile(profile, report.slow_s) for profile in report.profiles],
        "findings": [
            {
                "severity": finding.severity,
                "code": finding.code,
                "configuration": finding.configuration,
                "webhook": finding.webhook,
                "text": finding.text,
                "fix": finding.fix,
            }
            for finding in report.findings
        ],
    }


def _json_profile(profile: Profile, slow_s: float) -> dict[str, Any]:
    return {
        "configuration": profile.setting.hook.configuration,
        "webhook": profile.setting.hook.name,
        "kind": profile.setting.kind.lower(),
        "write": profile.sample.text if profile.sample is not None else None,
        "shared_with": list(profile.shared),
        "not_measured": profile.unmeasured or None,
        "slow": profile.slow(slow_s),
        "rates": [_json_measure(measure) for measure in profile.measures],
    }


def _json_measure(measure: Measure) -> dict[str, Any]:
    figures = measure.figures
    return {
        "qps": figures.rate,
        "sent": figures.sent,
        "p50_ms": figures.quantile(0.5) * 1000,
        "p99_ms": figures.quantile(0.99) * 1000,
        "added_p50_ms": measure.added(0.5) * 1000,
        "added_p99_ms": measure.added(0.99) * 1000,
        "failed_open": measure.failed_open,
        **{kind: figures.outcomes[kind] for kind in sorted(figures.outcomes)},
    }
