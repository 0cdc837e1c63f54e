"""A real browser for the tests: headless, and telling what it was asked for and what it said.

Its place is that of a system's package (`apt-get install chromium`); without it the tests that
need one skip, and say so.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
THREE_DIMENSIONS = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")  # WebGL without a GPU


def faults(page: object) -> list[tuple[str, str, str]]:
    """Return what axe finds wrong with a page: rule, place, what it says.

    Not looked at are the rows of buttons that the site's theme puts into code by itself. Style
    sheets are not loaded again, which a page of a disk may not.
    """
    axe = pytest.importorskip("axe_playwright_python", reason="no axe: barriers stay unseen")
    page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    call = "axe.run({exclude: ['.md-code__nav']}, {preload: false, resultTypes: ['violations']})"
    return [
        (rule["id"], str(node["target"]), node["failureSummary"])
        for rule in page.evaluate(call)["violations"]
        for node in rule["nodes"]
    ]


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


def barriers(address: str) -> list[object]:
    """Return what a page does wrong, unfolded, on a phone and a laptop, in light and dark.

    What it says on the console, what lies beyond the screen, and what axe finds.
    """
    found: list[object] = []
    with browser() as running:
        for width, scheme in ((390, "light"), (1000, "dark"), (1000, "light")):
            with opened(running, address, width, scheme=scheme) as seen:
                seen.page.evaluate(
                    "for (const d of document.querySelectorAll('details')) d.open = true"
                )
                seen.page.wait_for_timeout(300)
                wide = seen.page.evaluate("document.documentElement.scrollWidth")
                of_axe = faults(seen.page) if width == 1000 else []
                found += [
                    *seen.said,
                    *seen.warned,
                    *of_axe,
                    *([(width, wide)] if wide > width else []),
                ]
    return found
