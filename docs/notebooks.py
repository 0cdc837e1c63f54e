"""Notebooks of the site: run from top to bottom and turned into Markdown.

They are kept without outputs. Formulas become MathML, which browsers draw themselves, so that
pages need no script from elsewhere; pictures become files of their own.
"""

from __future__ import annotations

import base64
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.manager import AsyncKernelManager
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from once import once

FOLDER = Path(__file__).parent / "learn"
SECONDS = 120  # that a cell may take
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$\w])\$(?!\s)(.+?)(?<!\s)\$", re.DOTALL)
CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
DISPLAYED = r"\displaystyle"  # which SymPy says of all its formulas
MATRIX = re.compile(
    r"<mo[^>]*>(?:\[|&#x0005B;)</mo><mtable>(.*?)</mtable><mo[^>]*>(?:\]|&#x0005D;)</mo>", re.DOTALL
)
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
# The same figures give the same bytes, and text in them stays text.
FIGURES = """
import matplotlib as _m
_m.rcParams.update({"svg.hashsalt": "heft", "svg.fonttype": "none", "figure.figsize": (7.2, 3.4),
    "figure.constrained_layout.use": True, "axes.grid": True, "grid.alpha": 0.3,
    "axes.spines.top": False, "axes.spines.right": False})
"""


@dataclass
class Page:
    """A notebook as a page.

    Attributes:
        markdown: Its text, with what its cells wrote below them.
        pictures: Bytes by file name.
    """

    markdown: str = ""
    pictures: dict[str, bytes] = field(default_factory=dict)


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Return a notebook with its outputs; every cell is run, in a folder, by a fresh kernel.

    Raises:
        nbclient.exceptions.CellExecutionError: If a cell fails.
    """
    made = once(path.name, lambda: nbformat.writes(_executed(path, folder)))
    return nbformat.reads(made, as_version=4)


def _executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    notebook = nbformat.read(path, as_version=4)
    opening = nbformat.v4.new_code_cell(FIGURES)
    notebook.cells.insert(0, opening)
    # A socket in a folder, so that no port is opened.
    manager = AsyncKernelManager(kernel_name="python3", transport="ipc")
    manager.connection_file = str(folder / ".kernel.json")
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=SECONDS,
        resources={"metadata": {"path": folder}},
        extra_arguments=[
            "--InlineBackend.figure_formats={'svg'}",
            "--InlineBackend.print_figure_kwargs={'bbox_inches': None, 'metadata': {'Date': None}}",
        ],
    )
    client.execute(cleanup_kc=True)
    notebook.cells.remove(opening)
    return notebook


def page(notebook: nbformat.NotebookNode, name: str) -> Page:
    """Return an executed notebook as a page whose pictures are called `NAME-1.svg` and so on."""
    made = Page()
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(formulas(cell.source))
        elif cell.cell_type == "code":
            parts.append(f"``` {{ .python }}\n{cell.source}\n```")
            parts += [shown(output, name, made) for output in cell.outputs]
    made.markdown = "\n\n".join(part for part in parts if part) + "\n"
    return made


def shown(output: Any, name: str, made: Page) -> str:
    """Return one output as Markdown."""
    if output.output_type == "stream":
        return _text(output.text) if output.name == "stdout" else ""
    data = output.get("data", {})
    for kind, ending in (("image/svg+xml", "svg"), ("image/png", "png")):
        if kind in data:
            picture = f"{name}-{len(made.pictures) + 1}.{ending}"
            content = data[kind]
            made.pictures[picture] = (
                content.encode() if ending == "svg" else base64.b64decode(content)
            )
            return f'<img class="figure" alt="" src="{picture}">'
    if "text/html" in data:
        # A block of raw HTML ends at the first empty line.
        return "<div>" + re.sub(r"\n\s*\n", "\n", data["text/html"]) + "</div>"
    if "text/latex" in data:
        return _block(data["text/latex"].strip("$").removeprefix(DISPLAYED))
    return _text(data.get("text/plain", ""))


def formulas(text: str) -> str:
    """Return text with TeX between dollars as MathML; code is left alone."""

    def formula(found: re.Match[str]) -> str:
        block, inline = found.groups()
        # Inline for Markdown, else a line that begins with a formula would end there.
        return (
            f"<span>{_bracketed(convert(inline))}</span>"
            if block is None
            else f"\n{_block(block)}\n"
        )

    pieces = CODE.split(text)
    return "".join(p if k % 2 else FORMULA.sub(formula, p) for k, p in enumerate(pieces))


def _block(formula: str) -> str:
    made = _bracketed(convert(formula.strip(), display="block"))
    return f'<div class="formula" role="group" aria-label="Formula" tabindex="0">{made}</div>'


def _bracketed(mathml: str) -> str:
    """Return MathML whose matrices have brackets drawn by the style sheet.

    A bracket grows with its matrix only in fonts made for mathematics, which few systems have.
    """
    return MATRIX.sub(r'<mtable class="bracketed">\1</mtable>', mathml)


def _text(text: str) -> str:
    plain = ESCAPES.sub("", text).rstrip()
    return f"``` {{ .text .output }}\n{plain}\n```" if plain else ""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook; MkDocs calls this."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                made = page(executed(path, Path(scratch)), path.stem)
            except CellExecutionError as problem:
                raise PluginError(f"{path.name}: {problem}") from problem
        text = f"{made.markdown}\n[This page as a notebook]({path.name})\n"
        files.append(File.generated(config, f"learn/{path.stem}.md", content=text))
        for picture, content in made.pictures.items():
            files.append(File.generated(config, f"learn/{picture}", content=content))
    return files
