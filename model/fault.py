"""A spec that cannot be made into a world: the one error of `model` that a person caused."""

from dashpot.model.span import NOWHERE, Span


class SpecError(Exception):
    """What is wrong with a spec, found when its world is built: a code of the closed table, place, text, fix.

    `grammar.report` renders it like every other message.
    """

    def __init__(self, code: str, text: str, span: Span = NOWHERE, fix: str = "") -> None:
        super().__init__(f"{span}: {code} {text}")
        self.code = code
        self.text = text
        self.span = span
        self.fix = fix
