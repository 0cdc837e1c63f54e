"""What `metadata.yaml` of a rosbag2 says of the bag's files.

The file is written by programs, in YAML's block style. Some entries directly below its one table
are read line by line: there is nothing to expand, to nest or to construct.
"""

from __future__ import annotations

import json
import re

TABLE = "rosbag2_bagfile_information:"
TEXTS = ("storage_identifier", "compression_mode", "compression_format")
FILES = "relative_file_paths"
ENTRY = re.compile(r"(\w+)\s*:(?:\s+(.*))?")
COMMENT = re.compile(r"(?:^|\s)#.*")
NULL = ("", "~", "null")


def described(text: str) -> tuple[dict[str, str], list[str]]:
    """Return a bag's storage identifier and compression by name, and the names of its files.

    Args:
        text: Content of `metadata.yaml`.

    Raises:
        ValueError: If there is no such table, an entry stands there twice, or one is no text.
    """
    texts: dict[str, str] = {}
    files: list[str] = []
    for name, value in _entries(text):
        if name in TEXTS:
            if name in texts:
                raise ValueError(f"'{name}' stands there twice")
            texts[name] = _scalar(value)
        elif name == FILES and value.startswith("["):
            files += _listed(value)
        elif name == FILES and value:
            files.append(_scalar(value))
    if not texts:
        raise ValueError(f"it has no table '{TABLE}' in YAML's block style")
    return texts, files


def _entries(text: str) -> list[tuple[str, str]]:
    """Return the entries as (name, value) pairs; a list gives one pair for each of its texts."""
    found = []
    inside, depth, name = False, 0, ""
    for line in text.splitlines():
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if indent == 0 and not (inside and content.startswith("- ")):
            inside, depth = COMMENT.sub("", content) == TABLE, 0
        elif inside:
            depth = depth or indent
            entry = ENTRY.fullmatch(content)
            if indent == depth and entry:
                name = entry[1]
                found.append((name, entry[2] or ""))
            elif name == FILES and content.startswith("- "):
                found.append((name, content[2:].strip()))
    return found


def _listed(value: str) -> list[str]:
    value = COMMENT.sub("", value).strip()
    if not value.endswith("]"):
        raise ValueError(f"a list that does not end in its line: {value[:40]}")
    return [_scalar(part.strip()) for part in value[1:-1].split(",") if part.strip()]


def _scalar(value: str) -> str:
    """Return a text without its quotes; empty for null."""
    if value[:1] == '"':
        try:
            return str(json.JSONDecoder().raw_decode(value)[0])
        except ValueError:
            raise ValueError(f"this is no text: {value[:40]}") from None
    if value[:1] == "'":
        end = re.match(r"'((?:[^']|'')*)'", value)
        if end is None:
            raise ValueError(f"this is no text: {value[:40]}")
        return end[1].replace("''", "'")
    value = COMMENT.sub("", value).strip()
    if value[:1] in tuple("&*!|>%@`{[") or value.startswith("- "):
        raise ValueError(f"this is no plain text: {value[:40]}")
    return "" if value in NULL else value
