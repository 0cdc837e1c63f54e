"""What is loaded: names when they are first used, and libraries from where they are installed.

A package's `__init__` lists the names that it offers as imports, which type checkers and readers
take as they stand; here is read from them where a name is, and that file alone is run. Few commands
need more than half of the files.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

# What must come from where it is installed: Python's own modules, heft's and their dependencies.
LIBRARIES = sys.stdlib_module_names - {"test", "this", "antigravity", "idlelib"} | {
    *(
        "numpy",
        "scipy",
        "numba",
        "llvmlite",
        "clarabel",
        "pyarrow",
        "pandas",
        "matplotlib",
        "threadpoolctl",
    ),
    *("cyclopts", "rich", "rich_rst", "docutils", "docstring_parser", "attr", "attrs", "tomlkit"),
    *("jinja2", "markupsafe", "yaml", "cffi", "coal", "mujoco", "daqp", "viser", "trimesh"),
    *("mcap", "rosbags", "google", "h5py", "zenoh", "sympy", "heft_methods"),
}


def refuse_shadows() -> None:
    """Refuse to start where the current folder holds a module that heft would run unasked.

    `python -c`, `python -m` and notebooks look for modules in the current folder first, where
    people have their logs.

    Raises:
        ImportError: If a file there has the name of a library that is not loaded yet.
    """
    try:
        here = os.getcwd()
        entries = list(os.scandir(here))
    except OSError:  # there is no current folder, or nobody may look into it
        return
    if not any(os.path.abspath(p) == here for p in sys.path):
        return
    for entry in entries:
        name = entry.name.partition(".")[0]
        runs = entry.name.endswith((".py", ".pyc", ".so", ".pyd")) or os.path.isfile(
            os.path.join(entry.path, "__init__.py")
        )
        if runs and name not in sys.modules and name in LIBRARIES:
            raise ImportError(
                f"'{entry.name}' in the current folder would be run in place of the library "
                f"'{name}': rename it, or start Python with -P"
            )


def lazy(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` [PEP 562] and `__all__` of a package.

    A name must not be that of a file of the package: Python would put the file in its place.

    Args:
        file: Path of the package's `__init__`, in which relative imports say where each name is.
    """
    import ast  # here: whatever is imported must be the library's, see `refuse_shadows`
    from importlib import import_module

    places: dict[str, tuple[str, str | None]] = {}
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            for name in node.names:
                own = name.asname or name.name
                if node.module:
                    places[own] = f"{package}.{node.module}", name.name
                else:
                    places[own] = f"{package}.{name.name}", None

    def attribute_of(name: str) -> object:
        if name not in places:
            # `from package import file` asks for the file here, before it is looked for.
            own = name.startswith("_") or os.path.isfile(file.replace("__init__", name))
            added = {} if own else extensions(f"{package}.names")
            if name not in added:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            return added[name].load()
        module, attribute = places[name]
        value: object = import_module(module)
        if attribute is not None:
            value = getattr(value, attribute)
        setattr(sys.modules[package], name, value)
        return value

    return attribute_of, lambda: sorted({*vars(sys.modules[package]), *places}), sorted(places)


def extensions(group: str) -> dict[str, EntryPoint]:
    """Return what installed distributions add to heft, by name: entry points of a group.

    `importlib.metadata.entry_points` would parse those of all distributions, in ten times the time,
    and would take the current folder's.
    """
    from importlib.metadata import distributions

    try:
        here = os.getcwd()
    except OSError:
        here = ""
    installed = [p for p in sys.path if os.path.isabs(p) and p != here]
    stated = (
        d
        for d in distributions(path=installed)
        if f"[{group}]" in (d.read_text("entry_points.txt") or "")
    )
    return {e.name: e for d in stated for e in d.entry_points if e.group == group}


def on_demand(package: str, *names: str) -> None:
    """Let modules of a package be loaded when something of them is used, not when they are named.

    Args:
        names: Names of modules; those that are loaded already stay as they are.
    """
    from importlib.util import LazyLoader, find_spec, module_from_spec

    for name in names:
        full = f"{package}.{name}"
        spec = None if full in sys.modules else find_spec(full)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
            module = sys.modules[full] = module_from_spec(spec)
            setattr(sys.modules[package], name, module)
            spec.loader.exec_module(module)
