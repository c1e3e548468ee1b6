# SPDX-License-Identifier: GPL-2.0-only
"""Hooks of MkDocs: pages for what stands outside docs/.

README.md and its like become pages, a source file to which a page links becomes a page that shows it, and the links are
turned to these. `bbrgym` and each folder of the package have a page of reference, which mkdocstrings fills.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
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
#: The package and its folders of modules; the command's are not an interface.
FOLDERS = sorted({path.parent.name for path in (ROOT / "src" / "bbrgym").glob("*/__init__.py")} - {"cli"})
REFERENCE = {"reference/bbrgym.md": "# bbrgym\n\n::: bbrgym\n    options: {show_submodules: false}\n"} | {
    f"reference/{folder}.md": f"# bbrgym.{folder}\n\n::: bbrgym.{folder}\n" for folder in FOLDERS
}
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Add the reference to the navigation."""
    config.nav.append({"Reference": list(REFERENCE)})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of docs/."""
    pages = {file.src_uri for file in files if file.is_documentation_page()} | set(OUTSIDE)
    contents = {uri: (ROOT / name).read_text(encoding="utf-8") for uri, name in OUTSIDE.items()} | REFERENCE
    shown = sorted({target for uri in pages for target in outer_targets(uri)} - set(OUTSIDE.values()))
    contents |= {f"source/{target}.md": source_page(ROOT / target) for target in shown}
    for uri, text in contents.items():
        files.append(File.generated(config, uri, content=text))
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


def resolved(uri: str, link: str) -> str:
    """Return the file of the repository to which a page links."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(OUTSIDE.get(uri, f"docs/{uri}")), link))


def outer_targets(uri: str) -> Iterator[str]:
    """Yield the files outside docs/ to which a page links."""
    for found in LINK.finditer((ROOT / OUTSIDE.get(uri, f"docs/{uri}")).read_text(encoding="utf-8")):
        target = resolved(uri, found[1])
        if not target.startswith("docs/"):
            yield target


def place_of(target: str) -> str:
    """Return the page of a file of the repository."""
    own = {name: uri for uri, name in OUTSIDE.items()}.get(target, f"source/{target}.md")
    return target.removeprefix("docs/") if target.startswith("docs/") else own


def source_page(path: Path) -> str:
    """Return a page that shows a source file."""
    text = path.read_text(encoding="utf-8")
    return f"# {path.relative_to(ROOT)}\n\n````{path.suffix[1:]}\n{text}````\n"
