"""Configuration of the site: `make docs`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

import outcode

ROOT = Path(__file__).resolve().parents[1]

for name in ("papers", "report", "study"):  # attributes of the package; autodoc imports modules
    sys.modules[f"outcode.{name}"] = getattr(outcode, name)

project = "outcode"
author = "The outcode developers"
copyright = "The outcode developers"
version = release = outcode.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.md5"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
nitpicky = False
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings hold classes

# Links to other projects need their inventories, which are fetched: only where there is a network.
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
        "matplotlib": ("https://matplotlib.org/stable", None),
    }
    if os.environ.get("OUTCODE_DOCS_ONLINE")
    else {}
)

myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence", "attrs_inline"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the docstrings
numpydoc_show_class_members = True
numpydoc_show_inherited_class_members = {}
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(quickstart|picture)\.py",
    "image_scrapers": ("matplotlib",),
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 10,
    "abort_on_example_error": True,
    "backreferences_dir": None,
    "reset_modules": ("matplotlib",),
    "capture_repr": ("_repr_html_", "__repr__"),
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "outcode"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "outcode"},
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 7,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "cite": []}

# The pages of `project` named here show files of the root folder, with links that hold in the site.
ROOT_FILES = {
    "project/contributing": "CONTRIBUTING.md",
    "project/changelog": "CHANGELOG.md",
    "project/security": "SECURITY.md",
    "project/conduct": "CODE_OF_CONDUCT.md",
}
PAGES = {name: f"{page.rpartition('/')[2]}.md" for page, name in ROOT_FILES.items()}
PAGES |= {"docs/decisions": "../decisions/index.md", "docs/papers": "../papers/index.md"}


def link(match: re.Match[str]) -> str:
    """Return a link of a root file as the folder `project` needs it; the text where no page is."""
    text, target = match.groups()
    target = PAGES.get(target, target.replace("docs/", "../"))
    return f"[{text}]({target})" if target.endswith(".md") else f"`{text}`"


def read(app: Any, name: str, source: list[str]) -> None:
    """Replace a placeholder page by the root file it stands for."""
    if name in ROOT_FILES:
        text = (ROOT / ROOT_FILES[name]).read_text(encoding="utf-8")
        source[0] = re.sub(r"\[([^\]]+)\]\((?!http)([^)]+)\)", link, text)


def escape(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Let `|x|` and `gap_` in docstrings be a norm and an attribute, not reStructuredText.

    Links in methods inherited from scikit-learn lead to labels of its own site: their text stays.
    """
    for i, inherited in enumerate(lines):
        line = lines[i] = re.sub(r":ref:`([^<`]+?) <[^>]*>`", r"\1", inherited)
        if not re.match(r"\s*(>>>|\.\.\. )", line):
            head = re.match(r"(\s*[\w, ]+ : )?", line).group()  # numpydoc escapes names itself
            parts = re.split(r"(`[^`]*`)", line.removeprefix(head))
            parts[::2] = [re.sub(r"\||(?<=\w)_(?![\w_])", r"\\\g<0>", text) for text in parts[::2]]
            lines[i] = head + "".join(parts)


def formula(writer: Any, node: Any) -> None:
    """Write a formula as MathML, which browsers draw themselves: no script from elsewhere."""
    block = node.tagname == "math_block"
    html = convert(node.astext(), display="block" if block else "inline")
    writer.body.append(f'<div class="formula">{html}</div>' if block else html)
    raise SkipNode


def setup(app: Any) -> None:
    """Connect what happens while pages and docstrings are read."""
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", escape, priority=400)  # before numpydoc
