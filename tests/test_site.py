"""The site: links and anchors lead somewhere, every public object is listed, examples run."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest

import outcode

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(p for p in ROOT.glob("docs/**/*.md") if "_build" not in p.parts)]
)
EXAMPLES = sorted(ROOT.glob("examples/plot_*.py"))
#: Public in the source, for those who add an element, but not in the reference.
FOR_DEVELOPERS = {
    "codes": {"bch_generator", "bch_words", "resolve", "resolve_weighted"},
    "datasets": set(),
    "decisions": {"curve", "decided", "fit_threshold", "fitted"},
    "decoders": {"Sides", "log_total_exponential", "resolve", "total_loss"},
    "displays": {"Path"},
    "kernels": {
        "Rows", "check_spread", "feature_gammas", "gamma_value", "named", "places", "resolve",
        "squared_distances",
    },
    "machines": {"input_tags", "resolve"},
    "selection": {"OutputCodeClassifierCV", "median_gamma"},  # listed under other pages
    "persistence": {"load", "save"},  # listed as outcode.load and outcode.save
    "statistics": {"complete"},
    "study": {
        "FEW_ROWS", "MethodEstimate", "Progress", "Standing", "deal", "facts", "left_out",
        "sampled", "seeded",
    },
}  # fmt: skip


def anchors(path):
    """Return the anchors of the headings of a page, as GitHub and the site form them."""
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(path):
    text = re.sub(r"```(?!{).*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_anchors(path):
    for link in links(path):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if "gallery" in target.parts:  # made by `make docs` from the examples
            name = target.stem
            assert name == "index" or (ROOT / "examples" / f"{name}.py").exists(), link
            continue
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def listed():
    """Return the objects that the pages of the API reference list."""
    found = set()
    for page in ROOT.glob("docs/api/*.rst"):
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"\.\. currentmodule:: (.*)", line):
                module = match[1]
            elif match := re.fullmatch(r"   (\w+)", line):
                found.add(f"{module}.{match[1]}")
    return found


def test_the_reference_lists_every_public_object():
    missing, known = [], listed()
    for name in outcode.__all__:
        home = getattr(outcode, name)
        if not inspect.ismodule(home):
            missing += [] if f"outcode.{name}" in known else [name]
            continue
        hidden = FOR_DEVELOPERS.get(name, set())
        public = {n for n in getattr(home, "__all__", []) if not n.isupper()} - hidden
        missing += [f"{name}.{n}" for n in sorted(public) if f"outcode.{name}.{n}" not in known]
    assert missing == []


def test_every_page_is_in_a_table_of_contents():
    named = set()
    for page in ROOT.glob("docs/**/*.md"):
        for block in re.findall(r"```{toctree}\n(.*?)```", page.read_text(), flags=re.DOTALL):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            named |= {(page.parent / line).resolve() for line in lines}
    pages = [p for p in ROOT.glob("docs/**/*.md") if "_build" not in p.parts]
    unnamed = [p for p in pages if p.with_suffix("") not in named and p.parent.name != "decisions"]
    assert [p.name for p in unnamed] == ["index.md"]


def test_the_gallery_is_large_enough():
    assert len(EXAMPLES) >= 14


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_compile(path):
    text = path.read_text(encoding="utf-8")
    compile(text, path.name, "exec")
    title, rule = text.splitlines()[1:3]
    assert rule == "=" * len(title)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_run_and_draw(path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    plt.close("all")
    runpy.run_path(str(path))
    assert plt.get_fignums()
    plt.close("all")
