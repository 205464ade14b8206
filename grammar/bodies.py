"""Bodies: blocks of statements become automata (reconcile, gone, actions, admission, index handlers)."""

from __future__ import annotations

from attrs import define, evolve
from lark import Token, Tree

from dashpot.grammar import changed, writes
from dashpot.grammar.builder import Builder
from dashpot.grammar.expressions import condition, member, present, term, value
from dashpot.grammar.facts import facts, of_elements
from dashpot.grammar.nearest import nearest
from dashpot.grammar.scope import Facts, Scope
from dashpot.grammar.tree import Rule, parts, rule, rules, tokens, unquote
from dashpot.grammar.typing import bare, describe, element, nullable
from dashpot.model import types as t
from dashpot.model.automaton import Assign, Automaton, Bind, Branch, Call, End, Loop, Note, cursor
from dashpot.model.expr import Cached, Expr, Local, Memory

REQUEUES = ("reconcile", "gone")
"""Bodies that a queue runs, hence may come back to."""

LOCAL_ONLY = {"admission": "an admission hook", "handler": "an event handler"}
"""Bodies without API calls, in words."""


def automaton(block: Rule, scope: Scope, params: tuple[str, ...]) -> Automaton:
    """The automaton of a body whose parameters are locals of `scope` already."""
    builder = Builder(names={b.name: b.type for b in scope.locals.values()})
    _Body(builder, scope).block(block, scope)
    return builder.finish(params, scope.span(block))


@define
class _Body:
    """One body in the making. Methods for statements return the scope of the next statement."""

    builder: Builder
    outer: Scope

    def block(self, tree: Rule, scope: Scope) -> Facts:
        """The statements of a block; returns what is known at its end."""
        scope = evolve(scope, choice=True)
        dead = False
        for statement in rules(tree):
            if not self.builder.reachable:
                if not dead:
                    scope.error(
                        "D119",
                        statement,
                        "This is never reached: what stands before it always leaves.",
                        "remove it, or move it up",
                    )
                dead = True
                self.builder.open = [self.builder.label()]
            scope = self.statement(statement, scope)
        return scope.facts

    def statement(self, tree: Rule, scope: Scope) -> Scope:
        match tree.data:
            case "let":
                return self.let(tree, scope)
            case "assign":
                return self.assign(tree, scope)
            case "if":
                return self.branch(tree, scope)
            case "for":
                return self.loop(tree, scope)
            case "return":
                self.builder.emit(End("done", span=scope.span(tree)))
                return scope
            case "requeue":
                return self.requeue(tree, scope)
            case "fail":
                return self.fail(tree, scope)
            case "note":
                return self.note(tree, scope)
            case _:
                return self.write(tree, scope)

    # ------------------------------------------------------------ names
    def declare(self, token: Token, ty: t.Type, scope: Scope) -> Scope:
        return scope.with_local(token, ty, self.builder.local(str(token), ty))

    def let(self, tree: Rule, scope: Scope) -> Scope:
        token, part = parts(tree)[0], parts(tree)[1]
        assert isinstance(token, Token) and isinstance(part, Tree)
        if part.data in ("get", "list"):
            return self.read(token, part, scope)
        if part.data in ("create", "apply"):
            return self.made(token, part, scope)
        e = term(part, scope)
        if isinstance(e.type, t.Null):
            scope.error(
                "D201", part, "Nothing says which type this null has.", "bind a value, or use `null` where it is needed"
            )
        after = self.declare(token, e.type, scope)
        self.emit_bind(token, after, e)
        if e in scope.facts:
            bound = after.locals[str(token)]
            after = after.with_facts([Local(bound.name, bound.type)])
        return after

    def emit_bind(self, token: Token, after: Scope, e: Expr) -> None:
        label = self.builder.label()
        name = after.locals[str(token)].name
        self.builder.emit(Bind(name, e, label, after.span(token)), label)

    def read(self, token: Token, tree: Rule, scope: Scope) -> Scope:
        found = writes.read(tree, scope)
        ty: t.Type = found.type if found is not None else t.Bottom()
        after = self.declare(token, ty, scope)
        handlers = writes.errors(tree, scope)
        if found is None:
            return after
        span = scope.span(tree)
        if not self.may_call(tree, scope, "read"):
            return after
        if found.live:
            call = Call(found.verb, found.kind, 0, name=found.name, var=found.var, where=found.where,
                        result=after.locals[str(token)].name, span=span)  # fmt: skip
            self.emit_call(call, handlers, scope)
            return after
        if handlers:
            scope.error(
                "D120", rules(tree, "handler")[0], "A cached read never fails.", "remove the handler, or read `live`"
            )
        if scope.body == "environment":
            scope.error(
                "D120",
                tree,
                "An environment has no cache.",
                f"say `{found.verb} live {found.kind}`, or name the kind: an environment sees the truth",
            )
        cached = Cached(found.verb, found.kind, found.name, found.var, found.where, found.type, span)
        self.emit_bind(token, after, cached)
        return after

    def made(self, token: Token, tree: Rule, scope: Scope) -> Scope:
        call = writes.call(tree, scope) if self.may_call(tree, scope, str(tree.data)) else None
        handlers = writes.errors(tree, scope)
        ty: t.Type = t.Object(call.kind) if call is not None else t.Bottom()
        if call is None:
            return self.declare(token, ty, scope)
        name = self.builder.local(str(token), ty)
        if self.emit_call(evolve(call, result=name), handlers, scope):
            ty = t.Optional(ty)  # a handler went on, and then nothing was made
        return scope.with_local(token, ty, name)

    def assign(self, tree: Rule, scope: Scope) -> Scope:
        path, part = rule(tree, "path"), parts(tree)[-1]
        assert path is not None
        head = parts(path)[0]
        assert isinstance(head, Token)
        found = self.place(path, head, scope)
        if found is None:
            term(part, scope)
            return scope
        kind, steps, ty = found
        e = value(part, scope, ty, f"`{head}`" if len(steps) == 1 else "This place")
        label = self.builder.label()
        self.builder.emit(Assign(kind, steps, e, label, scope.span(tree)), label)
        stale = frozenset(f for f in scope.facts if _rooted(f, str(head)))
        after = evolve(scope, facts=scope.facts - stale)
        if kind == "memory" and len(steps) == 1 and not isinstance(e.type, t.Optional | t.Null):
            after = after.with_facts([Memory(str(head), scope.memory[str(head)])])
        return after

    def place(self, path: Rule, head: Token, scope: Scope) -> tuple[str, tuple[str | Expr, ...], t.Type] | None:
        """What an assignment goes to: memory, or the object under admission."""
        name = str(head)
        if name in scope.memory:
            return self.steps(path, "memory", scope.memory[name], Memory(name, scope.memory[name]), scope)
        bound = scope.locals.get(name)
        if bound is not None and scope.body == "admission" and isinstance(bound.type, t.Object) and name != "old":
            if len(parts(path)) > 1:
                return self.steps(path, "object", bound.type, Local(bound.name, bound.type), scope)
        if bound is not None:
            fix = f"bind a new name: `let {name}2 = …`"
            if isinstance(bare(bound.type), t.Object):
                fix = f"write it through the API: `update {name}.spec {{ … }}`"
            scope.error("D121", path, f"`{name}` is bound once; only memory can be assigned.", fix)
            return None
        close = nearest(name, scope.memory)
        fix = (
            f"did you mean `{close}`?"
            if close
            else f"declare it in the actor: `memory {name}: T = …`, or bind it: `let {name} = …`"
        )
        scope.error("D121", path, f"There is no memory `{name}`.", fix)
        return None

    def steps(
        self, path: Rule, kind: str, ty: t.Type, e: Expr, scope: Scope
    ) -> tuple[str, tuple[str | Expr, ...], t.Type] | None:
        found: list[str | Expr] = [str(parts(path)[0])]
        for step in parts(path)[1:]:
            if isinstance(step, Token):
                e = member(e, step, step, path, scope)
                found.append(str(step))
            else:
                inner = bare(e.type)
                if not isinstance(inner, t.MapOf | t.ListOf):
                    text = f"`[…]` needs a list or a map, but this is {describe(inner)}."
                    scope.error("D211", step, text, "name a map")
                    return None
                found.append(value(step, scope, inner.key if isinstance(inner, t.MapOf) else t.Int(), "The key"))
                ty = inner.value if isinstance(inner, t.MapOf) else inner.element
                if isinstance(inner, t.MapOf) and isinstance(inner.key, t.Name):
                    ty = nullable(ty)  # null takes the entry out
                e = evolve(e, type=ty)
            if isinstance(e.type, t.Bottom):
                return None
        return kind, tuple(found), e.type

    # ------------------------------------------------------------ flow
    def branch(self, tree: Rule, scope: Scope) -> Scope:
        test_tree, then_tree, *rest = parts(tree)
        assert isinstance(then_tree, Tree)
        test = condition(test_tree, scope, "the condition of `if`")
        then, other = self.builder.label(), self.builder.label()
        self.builder.emit(Branch(test, then, other, scope.span(test_tree)), then)
        known_then = self.block(then_tree, scope.with_facts(facts(test, True)))
        leaves, self.builder.open = self.builder.open, [other]
        no = scope.with_facts(facts(test, False))
        known_other = no.facts
        if rest and isinstance(rest[0], Tree):
            if rest[0].data == "if":
                known_other = self.branch(rest[0], no).facts
            else:
                known_other = self.block(rest[0], no)
        if not leaves:
            known = known_other
        elif not self.builder.open:
            known = known_then
        else:
            known = known_then & known_other
        self.builder.open = [*leaves, *self.builder.open]
        return evolve(scope, facts=known)

    def loop(self, tree: Rule, scope: Scope) -> Scope:
        token, over_tree, block = parts(tree)
        if scope.body == "handler":
            fix = "write one assignment: `x = x.filter(…)`, `x = x + …`"
            scope.error("D120", tree, "An event handler has no loops; it follows one object.", fix)
        assert isinstance(token, Token) and isinstance(block, Tree)
        over = present(term(over_tree, scope), over_tree, scope)
        inside = element(over.type)
        if inside is None:
            scope.error(
                "D211",
                over_tree,
                f"`for` runs over a collection, but this is {describe(over.type)}.",
                "name a list, set or range",
            )
            inside = t.Bottom()
        inner = self.declare(token, inside, scope)
        body, after = self.builder.label(), self.builder.label()
        self.builder.loops += 1
        entry = self.builder.label()
        self.builder.emit(Bind(cursor(self.builder.loops), over, entry, scope.span(tree)), entry)
        index = self.builder.emit(
            Loop(self.builder.loops, inner.locals[str(token)].name, over, body, after, scope.span(tree)), body
        )
        self.block(block, inner.with_facts(of_elements(over, inner.locals[str(token)].name)))
        self.builder.bind(index)
        self.builder.open = [after]
        return scope

    def requeue(self, tree: Rule, scope: Scope) -> Scope:
        rest = parts(tree)
        if scope.body not in REQUEUES:
            fix = (
                "write `return`; an action is tried again while its guard holds"
                if scope.body == "action"
                else "write `return`"
            )
            scope.error("D120", tree, "Only a reconcile has a queue to come back from.", fix)
        delay = value(rest[0], scope, t.Duration(), "The delay of `requeue after`") if rest else None
        self.builder.emit(End("after" if delay is not None else "requeue", delay, span=scope.span(tree)))
        return scope

    def fail(self, tree: Rule, scope: Scope) -> Scope:
        if scope.body != "admission":
            scope.error(
                "D120",
                tree,
                "`fail` denies a request, which only an admission hook can do.",
                "write `return` or `requeue`",
            )
        words = tokens(tree, "STRING")
        self.builder.emit(End("fail", message=unquote(words[0]) if words else "", span=scope.span(tree)))
        return scope

    # ------------------------------------------------------------ calls
    def may_call(self, tree: Rule, scope: Scope, verb: str) -> bool:
        """Report an API call (or a read) where none can stand."""
        words = LOCAL_ONLY.get(scope.body, "")
        if not words:
            return True
        if verb == "event":
            scope.error("D120", tree, f"There are no events in {words}.", "tell it in a reconcile or an action")
            return False
        if verb == "read" and scope.body == "admission":
            scope.error(
                "D120", tree, "An admission hook sees the truth; it reads nothing.", "name the kind: `Pod.exists(p, …)`"
            )
        else:
            scope.error("D120", tree, f"There are no API calls in {words}.", "move it into a reconcile or an action")
        return False

    def write(self, tree: Rule, scope: Scope) -> Scope:
        call = writes.call(tree, scope) if self.may_call(tree, scope, str(tree.data)) else None
        handlers = writes.errors(tree, scope)
        if call is None:
            for _, block in handlers:
                self.detached(block, scope)
            return scope
        if changed.asked(tree):
            self.emit_if_changed(call, handlers, scope)
        else:
            self.emit_call(call, handlers, scope)
        if call.result is None:
            return scope
        return evolve(
            scope, facts=frozenset(f for f in scope.facts if not _rooted(f, call.result) or isinstance(f, Local))
        )

    def note(self, tree: Rule, scope: Scope) -> Scope:
        """`event x Normal "Reason" message`."""
        self.may_call(tree, scope, "event")
        path, reason, message = rule(tree, "path"), tokens(tree, "STRING")[0], parts(tree)[-1]
        assert path is not None
        to = writes.target(path, scope)
        said = value(message, scope, t.Name(), "The message of an event")
        if to is None:
            return scope
        if to.rest:
            text = "An event is about a whole object, not a part of it."
            scope.error("D212", path, text, f"write `event {path.children[0]} …`")
            return scope
        words = unquote(reason)
        if not words[:1].isupper() or not words.isalnum():
            text = f"The reason of an event is a word like `FailedCreate`, but this is {words!r}."
            scope.error("D218", reason, text, "write letters and digits, the first a capital, without spaces")
        severity = rule(tree, "severity")
        assert severity is not None
        label = self.builder.label()
        self.builder.emit(Note(to.object, str(tokens(severity)[0]), words, said, label, scope.span(tree)), label)
        return scope

    def emit_if_changed(self, call: Call, handlers: list[tuple[str, Rule]], scope: Scope) -> None:
        """The call behind a test whether it would change what its local holds."""
        call, test = changed.tested(call, self.builder, scope)
        then, other = self.builder.label(), self.builder.label()
        self.builder.emit(Branch(test, then, other, call.span), then)
        self.emit_call(call, handlers, scope)
        self.builder.open = [*self.builder.open, other]

    def detached(self, block: Rule, scope: Scope) -> None:
        """Type a handler whose call was reported, for its own messages."""
        before = self.builder.open
        self.builder.open = [self.builder.label()]
        self.block(block, scope)
        self.builder.open += before

    def emit_call(self, call: Call, handlers: list[tuple[str, Rule]], scope: Scope) -> bool:
        """The call and its handlers; returns whether a handler goes on behind the call."""
        after = self.builder.label()
        labels = [(error, self.builder.label()) for error, _ in handlers]
        self.builder.emit(evolve(call, next=after, handlers=tuple(labels)))
        leaves = [after]
        for (_, label), (_, block) in zip(labels, handlers, strict=True):
            self.builder.open = [label]
            self.block(block, scope)
            leaves += self.builder.open
        self.builder.open = leaves
        return len(leaves) > 1


def _rooted(e: Expr, name: str) -> bool:
    """Whether a term is read from the variable `name`."""
    while not isinstance(e, Local | Memory):
        base = getattr(e, "base", None)
        if base is None:
            return False
        e = base
    return e.name == name


def block_of(tree: Rule) -> Rule:
    """The block of a declaration."""
    found = rule(tree, "block")
    assert found is not None
    return found
