# SPDX-License-Identifier: GPL-2.0-only
"""Hooks of MkDocs: pages for what stands outside docs/, and the reference.

README.md and its like become pages, a source file to which a page links becomes a page that shows it, and the links are
turned to these. Each folder of the package has a page of reference, made from its docstrings, and `bbrgym` itself one
that lists what is imported from it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import griffe
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "bbrgym"
#: Pages that stand outside docs/, by their place in the site.
OUTSIDE = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "bench.md": "bench/README.md",
    "benchmarks.md": "benchmarks/README.md",
    "ns3-scratch.md": "ns3-scratch/README.md",
    "security.md": "SECURITY.md",
}
#: The package's folders of modules; the command's are not an interface.
FOLDERS = sorted({path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {"cli"})
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
LANGUAGES = {".py": "python", ".def": "c", ".h": "c", ".hpp": "cpp", ".cpp": "cpp", ".yaml": "yaml"}


def on_config(config: Any) -> Any:
    """Add the reference to the navigation."""
    config.nav.append({"Reference": ["reference/bbrgym.md", *(f"reference/{folder}.md" for folder in FOLDERS)]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of docs/."""
    pages = {file.src_uri for file in files if file.is_documentation_page()} | set(OUTSIDE)
    for uri, name in OUTSIDE.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    for uri, text in reference_pages():
        files.append(File.generated(config, uri, content=text))
    shown = {target for uri in pages for target in outer_targets(uri) if not is_page(target)}
    for target in sorted(shown):
        files.append(File.generated(config, shown_at(target), content=source_page(target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links of the repository into links of the site."""
    uri = page.file.src_uri
    if uri.startswith(("reference/", "source/")):
        return markdown

    def turned(found: re.Match[str]) -> str:
        target = posixpath.relpath(place_of(resolved(uri, found[1])), posixpath.dirname(uri) or ".")
        return f"]({target}{found[2] or ''})"

    if uri == "index.md":
        page.meta["hide"] = ["toc"]  # leaves room for the pictures side by side
    return LINK.sub(turned, markdown).replace('src="docs/', 'src="')


# ---- places ------------------------------------------------------------------------------------------------


def repository_path(uri: str) -> str:
    """Return where a page of the site stands in the repository."""
    return OUTSIDE.get(uri, f"docs/{uri}")


def resolved(uri: str, link: str) -> str:
    """Return the file of the repository to which a page links."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(repository_path(uri)), link))


def outer_targets(uri: str) -> Iterator[str]:
    """Yield the files outside docs/ to which a page links."""
    text = (ROOT / repository_path(uri)).read_text(encoding="utf-8")
    for found in LINK.finditer(text):
        target = resolved(uri, found[1])
        if not target.startswith("docs/"):
            yield target


def is_page(target: str) -> bool:
    """Return whether a file outside docs/ is a page of the site."""
    return target in OUTSIDE.values()


def shown_at(target: str) -> str:
    """Return the page that shows a source file."""
    return f"source/{target}.md"


def place_of(target: str) -> str:
    """Return the page of a file of the repository."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return next((uri for uri, name in OUTSIDE.items() if name == target), shown_at(target))


# ---- contents ----------------------------------------------------------------------------------------------


def source_page(target: str) -> str:
    """Return a page that shows a source file."""
    path = ROOT / target
    text = path.read_text(encoding="utf-8")
    return f"# {target}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text}````\n"


def reference_pages() -> Iterator[tuple[str, str]]:
    """Yield the pages of reference."""
    own = (path for path in PACKAGE.glob("*.py") if not path.name.startswith("__"))
    yield "reference/bbrgym.md", "\n".join([top_page(), *described(own)])
    for folder in FOLDERS:
        modules = described((PACKAGE / folder).rglob("*.py"))
        yield f"reference/{folder}.md", "\n".join([f"# bbrgym.{folder}\n", *modules])


def described(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the directives that describe modules, the private ones left out."""
    for path in sorted(paths):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") for part in parts):
            yield f"::: {'.'.join(parts)}\n"


def top_page() -> str:
    """Return the page of the package: what is imported from it, and where each stands."""
    package = griffe.load("bbrgym", search_paths=[ROOT / "src"], resolve_aliases=True, resolve_implicit=True)
    rows = [row_of(package[name]) for name in package.exports]
    return "\n".join(["# bbrgym", "", "| name | |", "| --- | --- |", *rows, ""])


def row_of(member: griffe.Object | griffe.Alias) -> str:
    """Return the row of a thing that is imported from the package."""
    target = member.final_target if isinstance(member, griffe.Alias) else member
    summary = target.docstring.value.partition("\n")[0] if target.docstring else ""
    is_folder = target.is_module
    link = f"[{member.name}]({target.name}.md)" if is_folder else f"[{member.name}][{target.path}]"
    return f"| {link} | {summary} |"
