"""The documentation cannot rot: every path, command and make target that it names exists."""

import re
from pathlib import Path
from typing import Any

import click
import pytest
import typer

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
CODE = re.compile(r"```[^\n]*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
TOP = {"src", "docs", "tests", "bench", "examples", "deploy", "ui", ".ci"}
PATH = re.compile(rf"(?<![\w/.<~-])((?:{'|'.join(re.escape(top) for top in sorted(TOP))})/[\w./*-]*[\w/*])")
MADE = ("src/stepward/server/static", "bench/reports", "tests/artifacts")
SOURCE = re.compile(r"(?<![\w/.<~*-])((?:[\w-]+/)*[\w-]+\.(?:py|ts|tsx|css))\b")
THEIRS = {"train.py"}
"""Files of whoever reads."""


def snippets(page: Path) -> list[str]:
    return [block or inline for block, inline in CODE.findall(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_exists(page: Path) -> None:
    named = {path for snippet in snippets(page) for path in PATH.findall(snippet)}
    assert sorted(path for path in named if not path.startswith(MADE) and not any(ROOT.glob(path))) == []


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """Every file of the tree below ``TOP``, with a slash before."""
    listed = [path for top in TOP for path in (ROOT / top).rglob("*") if "node_modules" not in path.parts]
    return [f"/{path.relative_to(ROOT)}" for path in listed]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_source_file_exists(page: Path, sources: list[str]) -> None:
    """Those that are named by the end of their path alone: ``tallies.py``, ``model/launches.py``."""
    named = {name for snippet in snippets(page) for name in SOURCE.findall(snippet)} - THEIRS
    assert sorted(name for name in named if not any(path.endswith(f"/{name}") for path in sources)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text())
    local = [(link, anchor) for link, anchor in links if not re.match(r"[a-z]+:", link)]
    assert [link for link, _ in local if not (page.parent / link).exists()] == []
    at = [(page.parent / link if link else page, anchor) for link, anchor in local if anchor]
    assert [f"{target.name}#{anchor}" for target, anchor in at if anchor not in anchors(target)] == []


def test_every_page_is_reached_from_the_readme() -> None:
    linked = set(re.findall(r"\]\((docs/[^)#]+)", (ROOT / "README.md").read_text()))
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} - linked == set()


def anchors(page: Path) -> set[str]:
    """Where a link may lead to in a page: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands() -> dict[str, set[str]]:
    """Every command of the CLI, groups and their members, with its options: "ls", "token create"."""
    from stepward.cli.app import app

    found: dict[str, set[str]] = {}

    def walk(command: Any, name: str) -> None:
        found[name] = {"-h", "--help"} | {flag for one in command.params for flag in [*one.opts, *one.secondary_opts]}
        context = click.Context(command)
        for member in command.list_commands(context) if hasattr(command, "list_commands") else ():
            walk(command.get_command(context, member), f"{name} {member}".strip())

    walk(typer.main.get_command(app), "")
    return found


CALLED = re.compile(r"(?:^|[`|;&(] ?)\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/)?stepward ([a-z][^`\n#;&)]*)", re.MULTILINE)


def test_every_command_exists_with_its_options() -> None:
    known = commands()
    assert {"up", "run", "ls", "show", "demo", "goodput show"} <= set(known)
    unknown, asked = set(), 0
    for page in PAGES:
        for snippet in snippets(page):
            for called in CALLED.findall(snippet):
                words = called.partition(" -- ")[0].replace("[", " ").replace("]", " ").split()
                name = words[0]
                if any(other.startswith(f"{name} ") for other in known) and len(words) > 1:
                    member = f"{name} {words[1]}".partition("|")[0]
                    name = member if words[1][0].islower() else name
                asked += 1
                flags = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}
                if name not in known or not flags <= known[name]:
                    unknown.add(f"{page.name}: stepward {' '.join(words)}")
    assert asked > 100
    assert unknown == set()


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        target
        for page in PAGES
        for snippet in snippets(page)
        for target in re.findall(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*make ([a-z][a-z-]*)", snippet, re.MULTILINE)
    }
    assert {"demo", "test"} <= named
    assert named - targets == set()


def test_every_route_is_documented(tmp_path: Path) -> None:
    from stepward.server.app import ServerSettings, create_app

    paths = create_app(ServerSettings(data=str(tmp_path / "data"))).openapi_schema.paths or {}
    told = "\n".join(page.read_text() for page in PAGES)
    named, documented = set(map(plain, paths)), plain(told)
    assert len(named) > 40
    assert {path for path in named if path not in documented} == set()


def plain(text: str) -> str:
    """A path whatever its parameters are called."""
    return re.sub(r"\{[^}]*\}", "{}", text)


def test_every_error_code_is_documented() -> None:
    """docs/errors.md names each ``code=`` that the source raises, and no code that nothing raises."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").glob("**/*.py"))
    raised = set(re.findall(r"""code=\(?\s*["']([a-z][a-z0-9_]+)["']""", source))
    documented = set(re.findall(r"^\| `([a-z0-9_]+)`", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert raised - documented == set()
    assert {code for code in documented if code not in source} == set()
