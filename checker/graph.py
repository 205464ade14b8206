"""A quotient as a picture, drawn by Graphviz.

Boxes are green where the goal holds, red where it fails, amber where both occur. Boxes that
no step that must happen leaves, alone or together, stand in a heavy frame of the same colours. Edges are coloured by
actor; what need not happen (faults, environment) is dotted and has little say in the layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import graphviz  # type: ignore[import-untyped]
from attrs import frozen

from dashpot.checker.cast import HUES
from dashpot.checker.quotient import Box, Bundle, Quotient

FORMATS = ("svg", "png", "pdf", "dot")

_INK, _SOFT, _PAPER, _LINE = "#22211d", "#6c6a62", "#ffffff", "#8b887e"
_FILLS = {"holds": "#e2f1e8", "fails": "#fbe6e3", "both": "#fdf3dc", "": "#f1efe8"}
_FRAMES = {"holds": "#2c6e49", "fails": "#b3261e", "both": "#a35c00", "": "#6c6a62"}
_FAULT = "#b3261e"
_RUN = "#c99a1b"
_FONT = "Helvetica,Arial,DejaVu Sans,sans-serif"
_GROUND = "#faf9f6"
_ZEROS = ("0", "false")
_BARE = 'BORDER="0" CELLBORDER="0" CELLSPACING="6" CELLPADDING="3"'
_CELLS = 5
"""Entries in a line of the legend."""

_NAMES = 2
"""Actions that one edge names before it says how many more."""


class GraphError(Exception):
    """A picture that cannot be drawn; the text says why and what to do."""


@frozen
class Drawing:
    """A file that was written. `note`: what to know about it, "" if all is as asked."""

    path: Path
    note: str = ""


def draw(result: Quotient, target: Path) -> Drawing:
    """Draw to a file whose suffix names the format. Without the program `dot` its source is written instead."""
    kind = target.suffix.removeprefix(".") or "svg"
    if kind not in FORMATS:
        raise GraphError(f"no picture can be written as `.{kind}`: take one of {', '.join(FORMATS)}")
    picture = source(result)
    if kind == "dot":
        return Drawing(_written(target, picture.source.encode()))
    try:
        data = picture.pipe(format=kind, quiet=True)
    except graphviz.ExecutableNotFound:
        plain = _written(target.with_suffix(".dot"), picture.source.encode())
        note = f"Graphviz' program `dot` is not installed; with it: dot -T{kind} {plain} -o {target}"
        return Drawing(plain, note)
    except graphviz.CalledProcessError as error:
        text = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else str(error.stderr)
        raise GraphError(f"Graphviz could not draw it: {text.strip()}") from error
    return Drawing(_written(target, data))


def _written(target: Path, data: bytes) -> Path:
    try:
        target.write_bytes(data)
    except OSError as error:
        raise GraphError(f"cannot write {target}: {error.strerror or error}") from error
    return target


def source(result: Quotient) -> graphviz.Digraph:
    """The picture in Graphviz' language."""
    picture = graphviz.Digraph("quotient", engine="dot")
    picture.attr(bgcolor=_PAPER, fontname=_FONT, fontcolor=_INK, rankdir="TB", nodesep="0.35", ranksep="0.55")
    picture.attr(labelloc="b", labeljust="l", fontsize="11", label=_legend(result), pad="0.3", newrank="true")
    picture.attr("node", shape="box", style="filled,rounded", fontname=_FONT, fontsize="11", fontcolor=_INK)
    picture.attr("edge", fontname=_FONT, fontsize="9", arrowsize="0.6", penwidth="1.1")
    _boxes(picture, result)
    colors = actor_colors(result)
    reached = {b.target for b in result.bundles if b.role == "step"}
    for bundle, both in _paired(result.bundles):
        look = _edge(bundle, colors) | ({"dir": "both"} if both else {})
        if bundle.role != "step" and bundle.target in reached:
            look["constraint"] = "false"
        picture.edge(f"b{bundle.source}", f"b{bundle.target}", **look)
    return picture


def _boxes(picture: graphviz.Digraph, result: Quotient) -> None:
    """Boxes; those of one component together in a frame, and so each that no step that must happen leaves."""
    members: dict[int, list[int]] = {}
    for index, box in enumerate(result.boxes):
        members.setdefault(box.component, []).append(index)
    for number, group in members.items():
        if not result.boxes[group[0]].bottom and len(group) < 2:
            _nodes(picture, result, group)
            continue
        place = graphviz.Digraph(f"cluster{number}")
        place.attr("graph", label="", **_frame([result.boxes[i] for i in group]))
        _nodes(place, result, group)
        picture.subgraph(place)


def _nodes(place: graphviz.Digraph, result: Quotient, group: Sequence[int]) -> None:
    for index in group:
        box = result.boxes[index]
        look = {"fillcolor": _FILLS[box.goal], "color": _RUN if box.run else _FAULT if box.lost else _FRAMES[box.goal]}
        look["penwidth"] = "3" if box.run else "1"
        place.node(f"b{index}", label=_label(box, result), **look)


def _frame(group: Sequence[Box]) -> dict[str, str]:
    """How a component is framed: heavy, in the goal's colour, if no step that must happen leaves it, else thin."""
    goals = {box.goal for box in group}
    goal = goals.pop() if len(goals) == 1 else "both"
    look = {"style": "rounded,filled", "fillcolor": _GROUND, "color": _LINE, "penwidth": "0.6", "margin": "14"}
    if group[0].bottom:
        look |= {"color": _FRAMES[goal], "penwidth": "2.2"}
    return look


def _paired(bundles: Sequence[Bundle]) -> Iterator[tuple[Bundle, bool]]:
    """Bundles that need not happen and go both ways under the same names as one edge with two heads."""
    optional = {(b.source, b.target, b.actor, b.role): b for b in bundles if b.role != "step" and not b.run}
    for bundle in bundles:
        back = optional.get((bundle.target, bundle.source, bundle.actor, bundle.role))
        same = back is not None and [n for n, _ in back.actions] == [n for n, _ in bundle.actions]
        if not same or bundle.run:
            yield bundle, False
        elif bundle.source < bundle.target:
            yield bundle, True


def actor_colors(result: Quotient) -> dict[str, str]:
    """Actor → colour, of those that have an edge; by the place in the cast, as on the page of a story."""
    drawn = {b.actor for b in result.bundles if b.role != "fault"}
    places = {actor: i for i, actor in enumerate(result.actors)}
    return {actor: HUES[place % len(HUES)] for actor, place in places.items() if actor in drawn}


def _label(box: Box, result: Quotient) -> str:
    """The values that were asked for or are more than zero, and how many states look like this."""
    rows = [
        f"{_escaped(name)} <B>{_escaped(value)}</B>"
        for name, value in zip(result.names, box.values, strict=True)
        if name in result.shown or value not in _ZEROS or all(v in _ZEROS for v in box.values)
    ]
    start = f'<FONT COLOR="{_SOFT}" POINT-SIZE="9">start</FONT><BR/>' if box.start else ""
    states = f"{box.states:,} state{'s' * (box.states != 1)}"
    foot = f'<BR/><FONT COLOR="{_SOFT}" POINT-SIZE="9">{states}</FONT>'
    if box.lost:
        foot += f'<BR/><FONT COLOR="{_FAULT}" POINT-SIZE="9">✗ {box.lost:,} without a way out</FONT>'
    return f"<{start}{'<BR/>'.join(rows) or 'any state'}{foot}>"


def _edge(bundle: Bundle, colors: dict[str, str]) -> dict[str, str]:
    names = [name for name, _ in bundle.actions]
    more = f" +{len(names) - _NAMES}" if len(names) > _NAMES else ""
    color = _FAULT if bundle.role == "fault" else colors[bundle.actor]
    look = {"label": " " + ", ".join(names[:_NAMES]) + more + " ", "color": color, "fontcolor": color}
    look["tooltip"] = f"{bundle.actor}: " + ", ".join(f"{name} ×{count}" for name, count in bundle.actions)
    if bundle.role != "step":
        look |= {"style": "dotted", "weight": "0"}
    if bundle.run:
        look |= {"penwidth": "3", "color": _RUN}
    return look


def _legend(result: Quotient) -> str:
    """What colours and frames mean, as the picture's caption."""
    cells = []
    if result.goal:
        for kind, text in (("holds", "holds"), ("fails", "fails"), ("both", "in some states")):
            if any(box.goal == kind for box in result.boxes):
                look = f'BGCOLOR="{_FILLS[kind]}" BORDER="1" COLOR="{_FRAMES[kind]}"'
                cells.append(f"<TD {look}>{_escaped(result.goal)} {text}</TD>")
    cells.append('<TD BORDER="0">heavy frame: no step that must happen leads out</TD>')
    for actor, color in actor_colors(result).items():
        cells.append(f'<TD BORDER="0"><FONT COLOR="{color}">→ {_escaped(actor)}</FONT></TD>')
    if any(b.role != "step" for b in result.bundles):
        cells.append('<TD BORDER="0">dotted: need not happen</TD>')
    if any(b.run for b in result.bundles):
        cells.append(f'<TD BORDER="0"><FONT COLOR="{_RUN}">━ the run</FONT></TD>')
    counted = f"{result.states:,} states, {result.transitions:,} steps, {len(result.boxes)} boxes"
    counted += f" ({result.hidden} more not near the run)" if result.hidden else ""
    counted += "" if result.complete else "; not all states were explored"
    cells.append(f'<TD BORDER="0"><FONT COLOR="{_SOFT}">{counted}</FONT></TD>')
    lines = ["".join(cells[i : i + _CELLS]) for i in range(0, len(cells), _CELLS)]
    rows = "".join(
        f'<TR><TD ALIGN="LEFT"><TABLE ALIGN="LEFT" {_BARE}><TR>{line}</TR></TABLE></TD></TR>' for line in lines
    )
    return f"<<TABLE {_BARE}>{rows}</TABLE>>"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
