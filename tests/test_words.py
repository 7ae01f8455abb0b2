"""Plain words: the usual terms of the field, no metaphors, British spelling, in all prose."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

click_testing = pytest.importorskip("click.testing")

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob(".github/**/*.md"),
        *(p for p in ROOT.glob("docs/**/*.md") if "_build" not in p.parts),
        *ROOT.glob("docs/api/*.rst"),
    ]
)
SOURCES = sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/*.py")])

#: Sentences that puzzled readers, and others in their manner.
PUZZLING = re.compile(
    r"""parted\ anew | if\ not\ seen | of\ everything\ random | none\ but\ this | manners
    | at\ the\ door | nearly,\ and\ soon | one\ to\ some | left\ unfinished | both\ are\ said
    | met\ in\ turn | drawn\ together | about\ his | \bhis\b | \bhers?\b
    | (told|tells?)\ (\w+\ )?apart | \bamid\b | \bmend(s|ed|ing)?\b | pulled\ most
    | turned\ around | unless\ told | says\ what\ it\ is\ worth
    | gives?\ the\ class\ away | points\ on\ a\ circle | too\ good\ to\ be\ true | takes?\ turns
    | too\ sure\ of | warmed\ up | could\ run\ anything | (is|are)\ no\ (number|code)s?\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
#: American spellings of words that occur here; the project writes British English.
AMERICAN = re.compile(
    r"""\b( (un)?(behavior|color|favor|honor|neighbor|labor)\w* | centers? | centered | gray
    | (un|re)?label(ed|ing) | model(ed|ing) | analyz\w+ | catalogs? | fulfill?s? | licenses?
    | judgment | artifacts? | aging
    | (general|minim|maxim|optim|normal|standard|summar|recogn|discret|initial|organ|penal|random
      |regular|parametr|factor|vector|symmetr|emphas|util|real|visual|categor|local|special
      |parallel|equal|serial|diagonal|character|capital)iz(e|es|ed|er|ers|ing|ation|ations) )\b""",
    re.IGNORECASE | re.VERBOSE,
)


def page_prose(path):
    """Return the text of a page without code, formulas, addresses and titles of papers."""
    text = path.read_text(encoding="utf-8")
    text = text.replace("charset-normalizer", "")  # the name of a package
    text = re.sub(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$", " ", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)|\*[^*\n][^*]*\*(?!\*)|^ *\.\. .*$", " ", text, flags=re.MULTILINE)
    text = re.sub(r"^ {4,}.*$", " ", text, flags=re.MULTILINE)
    return re.sub(r'"[^"]{0,300}"', " ", text)  # what others wrote


def source_prose(path):
    """Return the docstrings and messages of a module, without code in them."""
    tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    values = [node.value for node in tree if isinstance(node, ast.Constant)]
    prose = "\n".join(v for v in values if isinstance(v, str) and v.count(" ") > 1)
    prose = re.sub(r"^\s*(>>>|\.\.\. ).*$", " ", prose, flags=re.MULTILINE)
    return re.sub(
        r"`[^`]*`|\x22[^\x22\n]*\x22|\S+\([^)]*\)|\w+\.\w+\S*|\w*_\w+|\*\w[^*]*\*", " ", prose
    )


def found(pattern, text):
    return sorted({" ".join(match.group().split()).lower() for match in pattern.finditer(text)})


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages(path):
    assert found(PUZZLING, path.read_text(encoding="utf-8")) == []
    assert found(AMERICAN, page_prose(path)) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_docstrings_and_messages(path):
    prose = source_prose(path)
    assert found(PUZZLING, prose) == []
    assert found(AMERICAN, prose) == []


def test_help():
    from outcode.app.cli import cli

    runner = click_testing.CliRunner()
    for arguments in [[], *([name] for name in cli.commands)]:
        text = " ".join(runner.invoke(cli, [*arguments, "--help"]).output.split())
        assert "Usage" in text
        assert found(PUZZLING, text) + found(AMERICAN, text) == []


def test_every_option_has_a_help_text():
    from outcode.app.cli import cli

    for name, command in cli.commands.items():
        for option in command.params:
            if option.param_type_name == "option":
                assert (option.help or "")[:1].isupper(), f"{name} --{option.name}: {option.help!r}"
