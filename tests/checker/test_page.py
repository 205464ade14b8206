"""The page of a story: one file that loads nothing, walks by keys, and reads on a phone, in light and dark."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from attrs import evolve
from tests.checker.browser import Browser
from tests.checker.ghosts import SOURCES, forgetful, tide, twins

from dashpot.checker.blame import Binding
from dashpot.checker.page import as_data, page
from dashpot.checker.story import Story, story
from dashpot.model.system import Obligation

EVIL = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"><!--"


def lasso() -> Story:
    system, violated = tide()
    return story(system, violated, SOURCES, replay="dashpot explain 1d9e")


def hostile() -> Story:
    """A story in which every text that a spec can choose tries to break out of the page."""
    system, violated = twins()
    told = story(system, violated, {name: text + EVIL for name, text in SOURCES.items()}, replay=EVIL)
    steps = tuple(evolve(s, object=EVIL, detail=(EVIL,)) for s in told.steps)
    return evolve(told, title=EVIL, sentence=EVIL, why=(EVIL,), fix=(f"`{EVIL}`",), steps=steps)


class _Parts(HTMLParser):
    """Collects the texts of style and script elements, and every attribute that could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {"style": [], "script": []}
        self.loads: list[str] = []
        self.policy = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self._inside = tag if tag in self.texts and found.get("type") != "application/json" else ""
        self.loads += [f"{tag} {value}" for name, value in attrs if name in ("src", "href", "action", "srcset", "data")]
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[self._inside].append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


@pytest.mark.parametrize("told", [lasso(), hostile()], ids=["lasso", "hostile"])
def test_the_file_loads_nothing_and_runs_only_its_own_script(told: Story) -> None:
    text = page(told)
    parts = _Parts(text)
    assert parts.loads == ["link data:,"]
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert parts.policy.startswith("default-src 'none';") and "unsafe" not in parts.policy
    for kind in ("style", "script"):
        (content,) = parts.texts[kind]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in parts.policy


def test_the_data_is_the_story() -> None:
    told = hostile()
    data = as_data(told)
    assert not set(data) & set("<>&\u2028\u2029")
    assert json.loads(data) == json.loads(msgspec.json.encode(told))


def test_the_same_story_is_the_same_file() -> None:
    assert page(lasso()) == page(lasso())


@pytest.fixture(scope="module")
def browser(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(chromium, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def show(browser: Browser, told: Story, folder: Path, fragment: str = "") -> str:
    """Open the page of a story; the address of its file."""
    file = folder / "story.html"
    file.write_text(page(told), encoding="utf-8")
    browser.requests.clear()
    browser.complaints.clear()
    browser.open(file.as_uri() + fragment)
    return file.as_uri()


def place(browser: Browser) -> tuple[str, str, Any]:
    """Where the walk stands: in words, in the address, and as the row marked current."""
    words = browser.value("document.getElementById('place').textContent")
    row = browser.value(
        "[...document.querySelectorAll('#steps .step')].findIndex(b => b.getAttribute('aria-current') === 'step')"
    )
    return words, browser.value("location.hash"), row


@pytest.mark.browser
def test_keys_walk_through_the_story(browser: Browser, tmp_path: Path) -> None:
    show(browser, lasso(), tmp_path)
    assert place(browser) == ("step 12 of 12 ↻", "#step=12", 12)
    for key, n in (
        ("Home", 0),
        ("ArrowLeft", 0),
        ("ArrowRight", 1),
        ("j", 2),
        ("k", 1),
        ("End", 12),
        ("ArrowLeft", 11),
    ):
        browser.press(key)
        words, address, row = place(browser)
        assert (address, row) == (f"#step={n}", n), key
        assert words.startswith(f"step {n} of 12" if n else "start of 12"), key


@pytest.mark.browser
def test_a_lasso_goes_round(browser: Browser, tmp_path: Path) -> None:
    show(browser, lasso(), tmp_path)
    browser.press("ArrowRight")
    assert place(browser)[1:] == ("#step=7", 7)
    assert browser.value("document.querySelectorAll('#steps .cycle').length") == 6
    assert browser.value("document.querySelectorAll('.loop').length") == 1


@pytest.mark.browser
def test_a_run_that_ends_stays_at_its_end(browser: Browser, tmp_path: Path) -> None:
    system, violated = twins()
    show(browser, story(system, violated, SOURCES), tmp_path)
    browser.press("ArrowRight")
    assert place(browser)[1:] == ("#step=2", 2)
    assert browser.value("document.getElementById('next').disabled") is True


@pytest.mark.browser
def test_the_address_opens_a_step_and_follows(browser: Browser, tmp_path: Path) -> None:
    show(browser, lasso(), tmp_path, "#step=3")
    assert place(browser)[1:] == ("#step=3", 3)
    browser.value(
        "new Promise(done => { addEventListener('hashchange', () => setTimeout(done)); location.hash = '#step=5' })"
    )
    assert place(browser)[2] == 5
    browser.value(
        "new Promise(done => { addEventListener('hashchange', () => setTimeout(done)); location.hash = '#step=999' })"
    )
    assert place(browser)[2] == 12


@pytest.mark.browser
def test_buttons_and_rows_can_be_pressed(browser: Browser, tmp_path: Path) -> None:
    show(browser, lasso(), tmp_path)
    for target, n in (
        ("#first", 0),
        ("#next", 1),
        ("#last", 12),
        ("#back", 11),
        ("#steps li:nth-child(5) .step", 4),
        (".truths button", 0),
    ):
        browser.value(f"document.querySelector('{target}').click()")
        assert place(browser)[2] == n, target


@pytest.mark.browser
@pytest.mark.parametrize("told", [lasso(), hostile()], ids=["lasso", "hostile"])
def test_no_request_leaves_the_page_and_nothing_foreign_runs(browser: Browser, tmp_path: Path, told: Story) -> None:
    address = show(browser, told, tmp_path)
    for key in ("Home", *["ArrowRight"] * 14, "End"):
        browser.press(key)
    browser.settle()
    asked = {url.partition("#")[0] for url in browser.requests}
    assert {url for url in asked if not url.startswith(("data:", "about:"))} == {address}
    assert browser.complaints == []
    assert browser.value("document.title") == f"{told.title} · dashpot"
    assert browser.value("document.querySelectorAll('img').length") == 0
    assert browser.value("document.querySelectorAll('script').length") == 2


@pytest.mark.browser
def test_deliveries_are_solid_and_what_is_under_way_is_dashed(browser: Browser, tmp_path: Path) -> None:
    told = lasso()
    show(browser, told, tmp_path)
    for n in (0, 1, 2, 5, 12):
        browser.value(f"document.querySelectorAll('#steps .step')[{n}].click()")
        landed = sum(f.landed is not None and f.landed + 1 <= n for f in told.flights)
        assert browser.value("document.querySelectorAll('.drawing .flight.landed').length") == landed
        assert browser.value("document.querySelectorAll('.drawing .flight').length") == len(told.flights)
    dash = "getComputedStyle(document.querySelector('.drawing .flight{}')).strokeDasharray"
    assert browser.value(dash.format(".landed")) == "none"
    browser.press("Home")
    assert browser.value(dash.format("")) != "none"


@pytest.mark.browser
def test_the_table_marks_differences_and_what_is_out_of_date(browser: Browser, tmp_path: Path) -> None:
    show(browser, lasso(), tmp_path, "#step=1")
    cells = "[...document.querySelectorAll('#objects {}')].map(e => e.textContent)"
    assert "exists" in browser.value(cells.format(".fresh"))
    assert browser.value(cells.format("td.behind"))
    browser.value("document.querySelectorAll('#steps .step')[3].click()")
    assert browser.value(cells.format("td.behind")) == []


@pytest.mark.browser
def test_the_deciding_line_is_marked_in_the_source(browser: Browser, tmp_path: Path) -> None:
    show(browser, lasso(), tmp_path, "#step=8")
    assert "pods.size() < db.spec.members" in browser.value("document.querySelector('.row.test').textContent")
    assert "create Pod" in browser.value("document.querySelector('.row.call').textContent")
    assert "step 7" in browser.value("document.querySelector('.stale').textContent")


OUTSIDE = """
[...document.querySelectorAll('#story *, header *, footer *')]
  .filter((node) => !node.closest('.wide, .listing') && node.getBoundingClientRect().right > innerWidth + 1)
  .map((node) => node.outerHTML.slice(0, 80))
"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [400, 640, 900, 1280])
def test_nothing_is_cut_off_at_any_width(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.size(width)
    for told in (lasso(), hostile(), story(*forgetful(), SOURCES)):
        show(browser, told, tmp_path)
        assert browser.value("document.documentElement.scrollWidth") <= width
        assert browser.value(OUTSIDE) == []


@pytest.mark.browser
def test_light_and_dark(browser: Browser, tmp_path: Path) -> None:
    show(browser, lasso(), tmp_path)
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.scheme("light")
    light = browser.value(paper)
    browser.scheme("dark")
    dark = browser.value(paper)
    assert light != dark
    browser.value("document.getElementById('theme').click()")
    assert browser.value(paper) == light
    browser.value("document.getElementById('theme').click()")
    assert browser.value(paper) == dark
    browser.scheme("light")
    assert browser.value(paper) == dark


CONTRAST = """
(() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => sum + weight * linear(rgb[i] / 255), 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = rgb(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const faint = [];
  for (const node of document.querySelectorAll('header *, #story *, footer *')) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || node.closest('.future, svg, [disabled], [hidden], noscript') || !node.getClientRects().length) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faint.push(`${node.className || node.tagName} ${node.textContent.slice(0, 20)} ${ratio}`);
  }
  return [...new Set(faint)];
})()
"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast_enough(browser: Browser, tmp_path: Path, scheme: str) -> None:
    """WCAG 2 level AA: 4.5 to 1 for text."""
    browser.scheme(scheme)
    for step in (0, 1, 8, 12):
        show(browser, lasso(), tmp_path, f"#step={step}")
        assert browser.value(CONTRAST) == []


@pytest.mark.browser
def test_it_can_be_read_by_a_screen_reader_and_printed(browser: Browser, tmp_path: Path) -> None:
    show(browser, lasso(), tmp_path)
    named = "(node) => node.getAttribute('aria-label') || node.textContent.trim() || node.closest('label')"
    assert browser.value(f"[...document.querySelectorAll('button, input')].every({named})") is True
    assert browser.value("document.querySelectorAll('[aria-live=polite]').length") == 1
    assert browser.value("document.documentElement.lang") == "en"
    browser.scheme("dark", "print")
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.value("getComputedStyle(document.querySelector('#run')).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.value("getComputedStyle(document.querySelector('.tale.print')).display") == "block"
    assert browser.value("getComputedStyle(document.querySelector('#now')).display") == "none"
    browser.scheme("light")


@pytest.mark.browser
def test_what_a_step_owes_is_shown_in_the_state_in_which_it_is_judged(browser: Browser, tmp_path: Path) -> None:
    """The text and the page say the same: before the step that breaks it, wherever the walk stands."""
    system, violated = twins()
    g = system.terms
    pods = g.cell(2, 0, 1)
    broken = Obligation("mine", g.eq(pods, g.const(0)), ("Pod db-0", ""), "no pod may exist")
    told = story(system, evolve(violated, goal=None, obligation=broken), SOURCES)
    (conjunct,) = told.blame.conjuncts
    values = ("0", "1", "2")
    one = evolve(conjunct, bindings=(Binding("pods", values),))
    show(browser, evolve(told, blame=evolve(told.blame, conjuncts=(one,))), tmp_path)
    for key in ("End", "Home", "ArrowRight"):
        browser.press(key)
        assert browser.value("document.querySelector('#blame dd').textContent") == values[told.blame.states[0]], key
