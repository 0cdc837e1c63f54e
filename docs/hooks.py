"""What building the site does besides turning Markdown into pages.

Code is run: every `python` block, page by page in one namespace each, and every line of a
`console` block that begins with `heft`, in a folder with the files of the demo, what
`heft identify` made of them, bags of two arms, and the examples. What is printed is shown below the
block. What a block marked `fails` asks for must be refused; one marked `quiet` is run without
showing its output. Anything unexpected ends the build.

Figures of stored benchmarks are put between their markers, as in the README. Pages about the
commands and the modules are made from the code.
"""

from __future__ import annotations

import contextlib
import gc
import graphlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from once import facts, once

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "heft"

FENCE = re.compile(r"^```(python|console)([ \w]*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
# What readers type that is not heft, and is not run.
OTHERS = {"pip", "pipx", "uv", "make", "cd", "python", "xacro", "ros2"}
SHARED = "heft identify arm.urdf run1.parquet --validate run2.parquet --out identified"
WIDTH = "100"
PICTURE = re.compile(r"!\[[^\]]*\]\((pictures/[\w-]+)\.png\)")


@contextlib.contextmanager
def captured(where: Path) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Collect what is written while working in a folder, which is home, too, but for caches."""
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd(), dict(os.environ), sys.argv, sys.path.copy()
    caches = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    os.environ |= {"COLUMNS": WIDTH, "HOME": str(where), "XDG_CACHE_HOME": caches}
    os.chdir(where)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield out, err
    finally:
        folder, settings, sys.argv, sys.path[:] = before
        os.chdir(folder)
        os.environ.clear()
        os.environ |= settings


@cache
def _workshop() -> tempfile.TemporaryDirectory[str]:
    from heft.applications import demo

    folder = tempfile.TemporaryDirectory(prefix="heft-docs-")
    for file in [*demo.FOLDER.glob("*.*"), *(ROOT / "examples").glob("*.toml")]:
        if file.suffix != ".py":
            shutil.copy(file, folder.name)
    return folder


def workshop() -> Path:
    """Return the folder in which code is run, with demo and examples; it goes with the process."""
    return Path(_workshop().name)


@cache
def run(line: str) -> tuple[int, str, str]:
    """Run a line that begins with `heft`; return exit code, output and messages."""
    from heft import cli

    if line != SHARED:
        prepare(line)
    code = 0
    with captured(workshop()) as (out, err):
        sys.argv = shlex.split(line, comments=True)
        try:
            cli.main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()


def prepare(text: str) -> None:
    """Identify the demo's arm, or record two arms with a box, once, if code makes use of that."""
    if "identified" in text:
        run(SHARED)
    if "pair/" in text and not (workshop() / "pair").exists():
        from tests.team_bags import Pair, Record, record

        record(Pair.of(1), Record(duration=30.0), workshop() / "pair", 1)


def commands(text: str, page: str, fails: bool) -> str:
    """Run the lines of a console block and return what they wrote."""
    shown = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words or words[0] in OTHERS:
            continue
        if words[0] != "heft":
            raise PluginError(f"{page}: neither heft nor known to be harmless: {line}")
        code, out, err = run(" ".join(line.split()))
        if (code != 0) != fails:
            raise PluginError(f"{page}: `{line}` ended with {code}:\n{err}")
        shown.append(err if fails else out)
    return "".join(shown)


def code(text: str, page: str, namespace: dict[str, Any]) -> str:
    """Run a block of Python and return what it printed."""
    prepare(text)
    with captured(workshop()) as (out, _):
        try:
            exec(compile(text, page, "exec"), namespace)
        except Exception as problem:
            raise PluginError(f"{page}: {problem!r} in\n{text}") from problem
    return out.getvalue()


def executed(markdown: str, page: str) -> str:
    """Return a page with what its blocks print below them."""
    return once(page, lambda: _executed(markdown, page)) if FENCE.search(markdown) else markdown


def _executed(markdown: str, page: str) -> str:
    namespace: dict[str, Any] = {"__name__": "__main__"}

    def block(found: re.Match[str]) -> str:
        language, marks, text = found.groups()
        unknown = set(marks.split()) - {"quiet", "fails"}
        if unknown:
            raise PluginError(f"{page}: unknown mark {unknown}")
        if language == "python":
            output = code(text, page, namespace)
        else:
            output = commands(text, page, "fails" in marks)
        shown = f"```{language}\n{text}```\n"
        if output.strip() and "quiet" not in marks:
            shown += f"\n``` {{ .text .output }}\n{output.rstrip()}\n```\n"
        return shown

    return FENCE.sub(block, markdown)


# --- pages made from the code


@cache
def modules() -> Mapping[str, Path]:
    """Return the modules of the package by name, room after room as they build on one another.

    The order of the rooms is the import contract's; in a room, each module stands behind those
    that it imports.
    """
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    order = [room.strip() for layer in reversed(layers) for room in layer.split("|")]
    found = {}
    for room in order:
        paths = sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]
        names = {path: ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in paths}
        files = {name.removesuffix(".__init__"): path for path, name in names.items()}
        graph = {name: sorted(siblings(name, path) & set(files)) for name, path in files.items()}
        found |= {n: files[n] for n in graphlib.TopologicalSorter(graph).static_order()}
    return found


def siblings(name: str, path: Path) -> set[str]:
    """Return the modules that a file imports from its own room."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    wanted = set()
    for level, module, names in facts(path).imports:
        if level:
            base = ".".join(package[: len(package) - level + 1])
            wanted |= {f"{base}.{place}" for place in ([module] if module else names)}
    return wanted - {name}


def module_table(prefix: str) -> str:
    """Return the modules with their subjects as a table, linked to their pages."""
    lines = ["| module | subject |", "|---|---|"]
    for name, path in modules().items():
        lines.append(
            f"| [`{name}`]({prefix}{name}.md) | {facts(path).subject.replace('|', '&#124;')} |"
        )
    return "\n".join(lines)


def readme_code() -> str:
    """Return the Python of the README, which its own test runs."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return "".join(found[0] for found in FENCE.finditer(text) if found[1] == "python")


def command_page() -> str:
    """Return the page of all commands, from the command line itself."""
    from heft.cli import app
    from heft.cli.commands import TOPICS

    with captured(ROOT):
        sys.argv = ["heft"]  # else usage says `python -m mkdocs`
        text = app.generate_docs(output_format="markdown", heading_level=2, flatten_commands=True)
    # Its title and list of contents are left out, and `<joint>` is no tag.
    first = f"**{next(iter(TOPICS))}**"
    text = first + text.partition(first)[2]
    return f"# Commands\n\nMade from the program itself.\n\n{text.replace('<', '&lt;')}"


# --- called by MkDocs


def on_startup(**_: Any) -> None:
    """Let the search for circles of garbage wait: millions of objects stay to the end anyway."""
    gc.disable()


def on_shutdown() -> None:
    """Search for circles again, but not among what was built, which would take seconds."""
    gc.freeze()
    gc.enable()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made from the code."""
    python = f"# Python\n\nEach module imports only what stands above it.\n\n{module_table('')}"
    made = {
        "reference/commands.md": command_page(),
        "reference/index.md": python,
    }
    if "HEFT_REPORTS" in os.environ:
        made |= {f"reports/{name}.html": page for name, page in robot_reports()}
    for place, content in made.items():
        files.append(File.generated(config, place, content=content))
    for name in modules():
        page = f"# heft.{name}\n\n::: heft.{name}\n"
        file = File.generated(config, f"reference/{name}.md", content=page)
        file.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(file)
    return files


def robot_reports() -> Iterator[tuple[str, str]]:
    """Yield each measured robot's name and report, of logs in the folder named by HEFT_DATA."""
    from benchmarks.arms import ROBOTS, data_folder

    from heft.applications.identification import identify, report

    for name, cases_of in ROBOTS.items():
        case = next(iter(cases_of(data_folder())))
        yield name, report.html(identify(case.robot, case.fit, case.score))


def in_both(found: re.Match[str]) -> str:
    """Return a picture as one for readers by day and one for those by night, if there are both."""
    light = found[0].replace(".png", ".png#only-light")
    dark = found[0].replace(".png", "-dark.png#only-dark")
    return light + dark if (ROOT / "docs" / f"{found[1]}-dark.png").exists() else found[0]


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Put in figures and the output of code."""
    from benchmarks import readme

    if page.file.generated_by:
        return markdown
    text = executed(readme.filled(markdown), page.file.src_uri)
    if "<!-- modules -->" in text:
        text = text.replace("<!-- modules -->", module_table("reference/"))
    return PICTURE.sub(in_both, text.replace("<!-- readme: python -->", readme_code()))


def on_post_page(output: str, **_: Any) -> str:
    """Name the theme's dialogue for screen readers; a corner of a table heads nothing."""
    named = output.replace('"search" role="dialog"', '"search" role="dialog" aria-label="Search"')
    return named.replace("<th></th>", "<td></td>")
