"""A real browser for the tests: headless, and telling what it was asked for and what it said.

Its place is that of a system's package (`apt-get install chromium`); without it the tests that
need one skip, and say so.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
THREE_DIMENSIONS = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")  # WebGL without a GPU

# The least contrast of a text with what is behind it [WCAG 2.2, 1.4.3], and the text.
CONTRAST = """(chosen) => {
  const rgba = (text) => [...text.match(/[0-9.]+/g).map(Number), 1].slice(0, 4);
  const over = (a, b) => [0, 1, 2].map((k) => a[3] * a[k] + (1 - a[3]) * b[k]);
  const light = (c) => c.map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + [0.2126, 0.7152, 0.0722][k] * v, 0);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const canvas = dark ? [18, 18, 18] : [255, 255, 255];
  const behind = (one) => {
    const own = one.parentElement ? behind(one.parentElement) : canvas;
    return over(rgba(getComputedStyle(one).backgroundColor), own);
  };
  let least = [99, ""];
  for (const one of document.querySelectorAll(chosen)) {
    const own = [...one.childNodes].filter((n) => n.nodeType === 3);
    const text = own.map((n) => n.data.trim()).join(" ").trim();
    if (!text || !one.checkVisibility() || one.closest("svg, script, style, button")) continue;
    let faded = 1;
    for (let up = one; up; up = up.parentElement) faded *= Number(getComputedStyle(up).opacity);
    const back = behind(one), ink = rgba(getComputedStyle(one).color);
    const a = light(over([...ink.slice(0, 3), ink[3] * faded], back)), b = light(back);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least[0]) least = [ratio, text.slice(0, 60)];
  }
  return least;
}"""


@dataclass
class Seen:
    """A page in the browser.

    Attributes:
        page: Playwright's page.
        said: Errors on the console, and exceptions.
        warned: Warnings on the console.
        asked: Every address that was asked for.
    """

    page: object
    said: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def browser(*flags: str) -> Iterator[object]:
    """Yield a browser; skip the test if there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: not drawn")
    place = next((p for n in NAMES if (p := shutil.which(n))), None)
    if place is None:
        pytest.skip(f"NO BROWSER ({', '.join(NAMES)}): what is drawn stays untested")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=place, args=["--no-sandbox", *flags])
        yield opened
        opened.close()


@contextmanager
def opened(
    browser: object, address: str, width: int = 1200, height: int = 900, scheme: str = "light"
) -> Iterator[Seen]:
    """Yield a page opened at a width, in a colour scheme."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(120_000.0)  # a busy machine draws slowly
    seen = Seen(context.new_page())
    kinds = {"error": seen.said, "warning": seen.warned}
    seen.page.on("console", lambda m: kinds.get(m.type, []).append(m.text))
    seen.page.on("pageerror", lambda error: seen.said.append(str(error)))
    seen.page.on("request", lambda request: seen.asked.append(request.url))
    seen.page.goto(address)
    yield seen
    context.close()
