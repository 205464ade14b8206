"""What every placement must satisfy, as linear facts over counts of pods of a template in a class of nodes.

Each fact follows from the filters; together they are weaker than the filters. So counts that satisfy them prove
nothing, and if there are none, no placement exists in any order.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from dashpot.checker.feasibility.classes import World
from dashpot.model.placement.interpod import ANTI as FAR
from dashpot.model.placement.interpod import terms_of
from dashpot.model.placement.request import scalar
from dashpot.model.placement.shape import Pod
from dashpot.model.placement.spread import HARD, MISSING, Constraint
from dashpot.model.placement.spread import SKEWED as SKEW

BASIC = ("cpu", "memory", "ephemeral-storage")
MANY = 20
"""Classes or domains beyond which facts of a single one are left for later."""
CUT = 6
"""Requests larger than this part of the smallest node are counted in whole pieces."""


@frozen
class Fact:
    """One fact: SMT-LIB text over `c_T_K`, and how people are told. `kind`: demand, static, room, pieces, ports, far,
    spread; `template`: whose it is, -1 for all; `extra`: one more unknown of the text; `local`: of one
    class or domain among many."""

    text: str
    label: str
    kind: str
    template: int = -1
    place: str = ""
    extra: str = ""
    local: bool = False


def var(template: int, which: int) -> str:
    """The number of pods of a template in a class."""
    return f"c_{template}_{which}"


def facts(world: World) -> list[Fact]:
    """All facts of a question."""
    return [
        *_demands(world),
        *_static(world),
        *_rooms(world),
        *_pieces(world),
        *_each(world),
        *_ports(world),
        *_far(world),
        *_spread(world),
    ]


def total(terms: list[str]) -> str:
    """A sum."""
    return "0" if not terms else terms[0] if len(terms) == 1 else f"(+ {' '.join(terms)})"


def times(factor: int, name: str) -> str:
    """A product with a constant."""
    return name if factor == 1 else f"(* {factor} {name})"


def _demands(world: World) -> Iterator[Fact]:
    for t, template in enumerate(world.instance.templates):
        everywhere = total([var(t, k) for k in range(len(world.classes))])
        yield Fact(f"(= {everywhere} {template.count})", f"place {template.name}", "demand", t, template.place)


def _static(world: World) -> Iterator[Fact]:
    """Classes that a filter of one node alone refuses, together for each reason."""
    for t, template in enumerate(world.instance.templates):
        reasons: dict[str, list[int]] = {}
        for k, status in enumerate(world.verdicts[t]):
            if not status.ok:
                reasons.setdefault(status.reasons[0], []).append(k)
        for reason, classes in reasons.items():
            count = sum(len(world.classes[k].nodes) for k in classes)
            nobody = total([var(t, k) for k in classes])
            yield Fact(f"(= {nobody} 0)", f"{count} {reason}", "static", t, template.place)


def _resources(world: World) -> list[str]:
    names: dict[str, None] = {}
    for template in world.instance.templates:
        names.update({n: None for n, a in template.pod.asks.items() if a > 0 and (n in BASIC or scalar(n))})
    return list(names)


def _free(world: World, which: int, name: str) -> int:
    nodes = world.classes[which].nodes
    return sum(max(0, node.allocatable.get(name, 0) - node.used.get(name, 0)) for node in nodes)


def _rooms(world: World) -> Iterator[Fact]:
    """What is free of each resource: in each class, and in the whole cluster."""
    many = len(world.classes) > MANY
    templates = world.instance.templates
    for name in _resources(world):
        asking = [(t, one.pod.asks[name]) for t, one in enumerate(templates) if one.pod.asks.get(name, 0) > 0]
        whole = [times(asks, var(t, k)) for t, asks in asking for k in range(len(world.classes))]
        free = sum(_free(world, k, name) for k in range(len(world.classes)))
        yield Fact(f"(<= {total(whole)} {free})", f"Insufficient {name}: {shown(name, free)} free in all", "room")
        for k, one in enumerate(world.classes):
            parts = [times(asks, var(t, k)) for t, asks in asking]
            room = _free(world, k, name)
            label = f"Insufficient {name}: {shown(name, room)} free on {one.title}"
            yield Fact(f"(<= {total(parts)} {room})", label, "room", local=many)
    for k, one in enumerate(world.classes):
        places = sum(max(0, node.allocatable.get("pods", 0) - len(node.pods)) for node in one.nodes)
        parts = [var(t, k) for t in range(len(templates))]
        yield Fact(f"(<= {total(parts)} {places})", f"Too many pods: room for {places} on {one.title}", "room")


def _pieces(world: World) -> Iterator[Fact]:
    """Large pods fit a node a whole number of times: for each size, how many as large or larger there can be."""
    many = len(world.classes) > MANY
    templates = world.instance.templates
    for name in _resources(world):
        sizes = [node.allocatable.get(name, 0) for one in world.classes for node in one.nodes]
        smallest = min((size for size in sizes if size > 0), default=0)
        asked = sorted({one.pod.asks[name] for one in templates if one.pod.asks.get(name, 0) * CUT > smallest})
        for size in asked if smallest else ():
            large = [t for t, one in enumerate(templates) if one.pod.asks.get(name, 0) >= size]
            rooms = []
            for one in world.classes:
                rooms.append(sum(max(0, n.allocatable.get(name, 0) - n.used.get(name, 0)) // size for n in one.nodes))
            what = f"pods that ask for {shown(name, size)} {name} or more"
            every = [var(t, k) for t in large for k in range(len(world.classes))]
            label = f"Insufficient {name}: {sum(rooms)} {what} fit in all"
            yield Fact(f"(<= {total(every)} {sum(rooms)})", label, "pieces")
            for k, room in enumerate(rooms):
                parts = total([var(t, k) for t in large])
                label = f"Insufficient {name}: {room} {what} fit on {world.classes[k].title}"
                yield Fact(f"(<= {parts} {room})", label, "pieces", local=many)


def _each(world: World) -> Iterator[Fact]:
    """How many pods of one template alone fit a class, all resources at once."""
    many = len(world.classes) > MANY
    for t, template in enumerate(world.instance.templates):
        names = [n for n, a in template.pod.asks.items() if a > 0 and (n in BASIC or scalar(n))]
        for k, one in enumerate(world.classes) if names else ():
            if not world.admissible(t, k):
                continue
            fits = 0
            short: dict[str, int] = {}
            for node in one.nodes:
                rows = {
                    n: max(0, node.allocatable.get(n, 0) - node.used.get(n, 0)) // template.pod.asks[n] for n in names
                }
                tight = min(rows, key=lambda n: rows[n])
                fits += rows[tight]
                short[tight] = short.get(tight, 0) + 1
            name = max(short, key=lambda n: short[n])
            label = f"Insufficient {name}: {one.title} take{'s' * (len(one.nodes) == 1)} {fits} of {template.name}"
            yield Fact(f"(<= {var(t, k)} {fits})", label, "pieces", t, template.place, local=many)


def _ports(world: World) -> Iterator[Fact]:
    """One pod with a host port on a node."""
    many = len(world.classes) > MANY
    users: dict[tuple[str, int], list[int]] = {}
    for t, template in enumerate(world.instance.templates):
        for address, protocol, port in template.pod.ports:
            if address == "0.0.0.0":
                users.setdefault((protocol, port), []).append(t)
    for (_, port), those in users.items():
        for k, one in enumerate(world.classes):
            parts = total([var(t, k) for t in dict.fromkeys(those)])
            label = f"node(s) didn't have free ports for the requested pod ports ({port}): {one.title}"
            yield Fact(f"(<= {parts} {len(one.nodes)})", label, "ports", local=many)


def _domains(world: World, key: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for k, one in enumerate(world.classes):
        if key in one.domains:
            found.setdefault(one.domains[key], []).append(k)
    return found


def _far(world: World) -> Iterator[Fact]:
    """Pods that want to be far from their like: one in a domain, none where such a pod stands already."""
    cluster = world.instance.cluster
    for t, template in enumerate(world.instance.templates):
        own = cluster.labels_of(template.pod.namespace)
        for term in terms_of(template.pod).far:
            alike = term.matches(template.pod, own)
            places = 0
            domains = _domains(world, term.key)
            many = len(domains) > MANY
            for value, classes in domains.items():
                there = any(
                    term.matches(pod, cluster.labels_of(pod.namespace))
                    for k in classes
                    for node in world.classes[k].nodes
                    for pod in node.pods.values()
                )
                if not there and not alike:
                    continue
                most = 0 if there else 1
                places += most if any(world.admissible(t, k) for k in classes) else 0
                parts = total([var(t, k) for k in classes])
                label = f"{FAR}: {most} of {template.name} where {term.key} is {value}"
                yield Fact(f"(<= {parts} {most})", label, "far", t, template.place, local=many)
            if alike:
                open_ = [k for k, one in enumerate(world.classes) if term.key in one.domains and world.admissible(t, k)]
                everywhere = total([var(t, k) for k in open_])
                label = f"{FAR}: {places} of {template.name}, one for each {term.key}"
                yield Fact(f"(<= {everywhere} {places})", label, "far", t, template.place)


def _spread(world: World) -> Iterator[Fact]:
    """Skews, in any order of arrival: where a pod with the constraint was added last, its domain then had at most the
    skew more than any other, and has no more of the new ones since; the others have only grown. `m_T_C` is a number
    that no domain is below."""
    templates = world.instance.templates
    for t, template in enumerate(templates):
        pod = template.pod
        for at, one in enumerate(pod.spec.get("topologySpreadConstraints") or ()):
            if one.get("whenUnsatisfiable") != HARD:
                continue
            rule = Constraint.of(one, pod.labels)
            if not rule.selector.matches(pod.labels) or rule.selector.empty:
                continue
            domains = _domains(world, rule.key)
            counted = _counted(world, rule, template.pod, domains)
            alike = [
                u
                for u, other in enumerate(templates)
                if other.pod.namespace == pod.namespace and rule.selector.matches(other.pod.labels)
            ]
            least = len(counted) < rule.least
            yield from _lacking(world, t, rule.key)
            lowest, many = f"m_{t}_{at}", len(domains) > MANY
            over = f"{SKEW} (maxSkew {rule.skew}): {template.name}"
            if least:
                yield Fact(f"(<= {lowest} 0)", f"{over}, fewer {rule.key} than minDomains", "spread", t, template.place)
            for value in counted:
                those = [str(counted[value]), *(var(u, k) for u in alike for k in domains.get(value, ()))]
                label = f"{over}, no more than {rule.key} {value} and the skew"
                yield Fact(f"(<= {lowest} {total(those)})", label, "spread", t, template.place, local=many)
            for value, classes in domains.items():
                mine = total([var(t, k) for k in classes])
                text = f"(or (= {mine} 0) (<= (+ {counted.get(value, 0)} {mine}) (+ {lowest} {rule.skew})))"
                label = f"{over}, in {rule.key} {value}"
                yield Fact(text, label, "spread", t, template.place, lowest, many)


def _lacking(world: World, t: int, key: str) -> Iterator[Fact]:
    lacking = [k for k, one in enumerate(world.classes) if key not in one.domains]
    if lacking:
        count = sum(len(world.classes[k].nodes) for k in lacking)
        label = f"{count} {MISSING}: {key}"
        template = world.instance.templates[t]
        yield Fact(f"(= {total([var(t, k) for k in lacking])} 0)", label, "spread", t, template.place)


def _counted(world: World, rule: Constraint, pod: Pod, domains: dict[str, list[int]]) -> dict[str, int]:
    """Domains that count, with the pods of the sort that stand in them now."""
    found: dict[str, int] = {}
    for value, classes in domains.items():
        for k in classes:
            for node in world.classes[k].nodes:
                if rule.counts_in(pod, node):
                    found[value] = found.get(value, 0) + rule.matching(node, pod.namespace)
    return found


def shown(name: str, amount: int) -> str:
    """An amount as people write it."""
    if name == "cpu":
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
            if amount >= size:
                return f"{amount / size:.4g}{unit}"
    return str(amount)
