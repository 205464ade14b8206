"""A story as one HTML file that needs nothing else: no network, no server, no library.

The page is a template, a style and a script (`assets/`), and the story as JSON in a data block. A content
security policy with the hashes of exactly this style and this script forbids everything else, so that
nothing a spec contains can run or load.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib.resources import files
from string import Template

import msgspec

from dashpot.checker.story import Story
from dashpot.checker.tell import KINDS, tell


def page(story: Story) -> str:
    """The whole file. Steps are walked with ← → Home End j k; `#step=3` in its address opens step 3."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return Template(_asset("page.html")).substitute(
        policy=html.escape(policy, quote=False).replace('"', "&quot;"),
        title=html.escape(story.title),
        verdict=html.escape(KINDS.get(story.kind, story.kind)),
        kind=html.escape(story.kind),
        sentence=re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(story.sentence)),
        tale=html.escape(tell(story, color=False, width=92)),
        style=style,
        script=script,
        data=as_data(story),
    )


def as_data(value: object) -> str:
    """A value as JSON that may stand inside a script element: no text in it can end the element or open a comment."""
    text = msgspec.json.encode(value).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _asset(name: str) -> str:
    return (files("dashpot.checker") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source expression of a content security policy that allows an element with exactly this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
