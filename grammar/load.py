"""Text to Program: the façade of the room.

`load` and `load_text` give a Program or raise `SpecRejected`, and nothing else; `examine` gives the warnings too.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from attrs import define, field, frozen

from dashpot.grammar import actors, checks, declare, formulas
from dashpot.grammar.aims import aims
from dashpot.grammar.nearest import nearest
from dashpot.grammar.notes import Notes
from dashpot.grammar.parse import parse
from dashpot.grammar.report import Message, SpecRejected
from dashpot.grammar.scope import Declared, Module, Universe, Use
from dashpot.grammar.suggest import did_you_mean
from dashpot.grammar.tree import Rule, dotted, place, rule, rules, tokens
from dashpot.model.program import Admission, Controller, Environment, Process, Program
from dashpot.model.span import Span

Actor: TypeAlias = Controller | Process | Environment | Admission

LIBRARY = "kubernetes"
"""First part of the names of the modules that come with the package."""


@frozen
class Loaded:
    """A Program and the warnings about its main file, in the order of their places."""

    program: Program
    warnings: tuple[Message, ...]


def load(path: str | Path) -> Program:
    """The Program of a spec file and all that it uses. Raises SpecRejected with every message there is."""
    return examine(path).program


def load_text(text: str, file: str = "spec.loop", folder: Path | None = None) -> Program:
    """The Program of a text; `use` looks in `folder` (none: only the library). Raises SpecRejected."""
    return examine_text(text, file, folder).program


def load_as(module: str, path: str | Path) -> Program:
    """The Program of a file that stands for a module of the library, `kubernetes.replicaset`: its `extern fun` are that
    module's. Raises SpecRejected."""
    path = Path(path)
    text = _read(path, str(path), Span(str(path), 0, 0, 0, 0))
    return _Loading(Notes(str(path))).main(module, text, str(path), path.parent).program


def examine(path: str | Path) -> Loaded:
    """As `load`, with warnings."""
    path = Path(path)
    return _Loading(Notes(str(path))).main(
        _name_of(path), _read(path, str(path), Span(str(path), 0, 0, 0, 0)), str(path), path.parent
    )


def examine_text(text: str, file: str = "spec.loop", folder: Path | None = None) -> Loaded:
    """As `load_text`, with warnings."""
    return _Loading(Notes(file)).main(Path(file).stem, text, file, folder)


def library() -> dict[str, str]:
    """Names of the library's modules and the names of their files."""
    folder = files("dashpot.model").joinpath(LIBRARY)
    names = sorted(f.name for f in folder.iterdir() if f.name.endswith(".loop"))
    return {f"{LIBRARY}.{n.removesuffix('.loop')}": n for n in names}


def library_text(name: str) -> str:
    """The text of a module of the library, `kubernetes.core`."""
    return files("dashpot.model").joinpath(LIBRARY, library()[name]).read_text(encoding="utf-8")


def library_texts() -> dict[str, str]:
    """The texts of all modules of the library, by the names that their spans have for their files."""
    return {f"{LIBRARY}/{file}": library_text(name) for name, file in library().items()}


def _name_of(path: Path) -> str:
    """The module name of a file: a file of the library is itself, not a copy beside it."""
    name = f"{LIBRARY}.{path.stem}"
    if path.parent.name == LIBRARY and name in library():
        resource = files("dashpot.model").joinpath(LIBRARY, path.name)
        if isinstance(resource, Path) and resource.resolve() == path.resolve():
            return name
    return path.stem


def _read(path: Path, name: str, where: Span) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SpecRejected([Message("D118", where, f"{name} is no text in UTF-8.", "save it as UTF-8")]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be opened"
        raise SpecRejected([Message("D118", where, f"I cannot read {name}: {reason}.", "check the path")]) from None


@define
class _Loading:
    """One load: modules are read depth first, so that a module comes after all that it uses."""

    notes: Notes
    universe: Universe = field(init=False)
    texts: dict[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.universe = Universe(self.notes)

    def main(self, name: str, text: str, file: str, folder: Path | None) -> Loaded:
        try:
            self.module(name, text, file, folder, ())
            program = self.program(name)
            if not self.notes.failed:
                aims(program, self.notes)
            self.notes.check()
        except RecursionError:
            where = Span(file, 1, 1, 1, 1)
            raise SpecRejected(
                [Message("D024", where, "This spec is nested too deeply.", "name parts of it with `let` or `fun`")],
                self.texts,
            ) from None
        except SpecRejected as rejected:
            raise SpecRejected(rejected.messages, self.texts) from None
        return Loaded(program, tuple(m for m in self.notes.sorted() if m.span.file == file))

    # ------------------------------------------------------------ modules
    def module(self, name: str, text: str, file: str, folder: Path | None, above: tuple[str, ...]) -> Module | None:
        self.texts[file] = text
        try:
            tree = parse(text, file)
        except SpecRejected as rejected:
            self.notes.messages += [m for m in rejected.messages if m not in self.notes.messages]
            self.notes.check()
            raise
        module = Module(name, file, text, tree)
        for use in rules(tree, "use"):
            path = rule(use, "dotted")
            assert path is not None
            wanted = dotted(path)
            names = {str(n): place(n, file) for n in tokens(use, "NAME")}
            if self.need(wanted, path, module, folder, (*above, name)):
                module.uses.append(Use(wanted, names, place(path, file)))
        for run in tree.find_data("run"):
            for path in rules(run, "dotted"):
                if len(tokens(path)) > 1 and dotted(path) in library():
                    self.need(dotted(path), path, module, folder, (*above, name))
        self.universe.modules[name] = module
        return module

    def need(self, wanted: str, path: Rule, user: Module, folder: Path | None, above: tuple[str, ...]) -> bool:
        """Load a module unless it is there; False if that was reported."""
        where = place(path, user.file)
        if wanted in above:
            circle = " → ".join([*above[above.index(wanted) :], wanted])
            self.notes.error(
                "D106",
                where,
                f"These modules use each other in a circle: {circle}.",
                "move what they share into a third file",
            )
            return False
        if wanted in self.universe.modules:
            return True
        if wanted in library():
            self.module(wanted, library_text(wanted), f"{LIBRARY}/{library()[wanted]}", None, above)
            return True
        file = folder.joinpath(*wanted.split(".")).with_suffix(".loop") if folder is not None else None
        if wanted.startswith(LIBRARY + ".") or file is None or not file.is_file():
            self._missing(wanted, where, folder)
            return False
        shown = str(Path(user.file).parent / file.relative_to(folder)) if folder is not None else str(file)
        self.module(wanted, _read(file, shown, where), shown, file.parent, above)
        return True

    def _missing(self, wanted: str, where: Span, folder: Path | None) -> None:
        beside = [p.stem for p in folder.glob("*.loop")] if folder is not None else []
        close = nearest(wanted, [*library(), *beside])
        fix = (
            f"did you mean `{close}`?"
            if close
            else "modules of the library are " + ", ".join(library()) + "; others are files beside this one"
        )
        self.notes.error("D105", where, f"I find no module `{wanted}`.", fix)

    # ------------------------------------------------------------ phases
    def program(self, main: str) -> Program:
        modules = list(self.universe.modules.values())
        for phase in (declare.collect, _see, declare.enums, declare.clashes, declare.constants, declare.structs):
            self.each(phase)
        for phase in (declare.resources, declare.all_functions, declare.rules_of):
            self.each(phase)
        made = {d.name: _actor(d, self.universe) for d in self.universe.of("actor")}
        universe = self.universe
        return Program(
            main=main,
            constants=tuple(d.constant for d in universe.of("const") if d.constant is not None),
            enums=tuple(d.enum for d in universe.of("enum") if d.enum is not None),
            resources=tuple(d.resource for d in universe.of("kind") if d.resource is not None),
            controllers=tuple(a for a in made.values() if isinstance(a, Controller)),
            processes=tuple(a for a in made.values() if isinstance(a, Process)),
            environments=tuple(a for a in made.values() if isinstance(a, Environment)),
            admissions=tuple(a for a in made.values() if isinstance(a, Admission)),
            properties=tuple(p for m in modules for p in formulas.properties(m, universe)),
            checks=tuple(c for m in modules for c in checks.checks(m, universe)),
            scenarios=tuple(s for m in modules for s in checks.scenarios(m, universe)),
            sources=tuple((m.file, m.text) for m in modules),
        )

    def each(self, phase: Callable[[Module, Universe], None]) -> None:
        for module in self.universe.modules.values():
            phase(module, self.universe)


def _actor(declared: Declared, universe: Universe) -> Actor | None:
    match declared.tree.data:
        case "controller":
            return actors.controller(declared, universe)
        case "process":
            return actors.process(declared, universe)
        case "environment":
            return actors.environment(declared, universe)
        case _:
            return actors.admission(declared, universe)


def _instead(name: str, other: Module) -> str:
    """What to do about a name that a module lacks: a user cannot write into those of the library."""
    if other.name not in library():
        return f"remove it, or declare it in {other.name}"
    there = ", ".join(f"`{n}`" for n in sorted(other.own))
    kind = f'if it is a kind declare it here: `resource {name} "v1" {{ … }}`'
    return f"{other.name} has {there}; remove it from the `use`" + (f", and {kind}" if name[:1].isupper() else "")


def _see(module: Module, universe: Universe) -> None:
    """What a module's text may name: its own declarations and those that it asks for."""
    module.visible = dict(module.own)
    for use in module.uses:
        other = universe.modules[use.module]
        for name in use.names or other.own:
            where, found = use.names.get(name, use.span), other.own.get(name)
            if found is None:
                fix = did_you_mean(name, other.own, _instead(name, other))
                universe.notes.error("D107", where, f"{use.module} declares no `{name}`.", fix)
                universe.notes.absent.add((module.file, name))
            elif module.visible.get(name, found) is not found:
                fix = f"rename it here, or list what you use: `use {use.module} (…)`"
                universe.notes.error("D103", where, f"`{name}` is declared here and in {use.module}.", fix)
            else:
                module.visible[name] = found
