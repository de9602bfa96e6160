"""The documentation cannot rot: every path, command and make target that it names exists."""

import re
from pathlib import Path

import pytest
import typer

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
CODE = re.compile(r"```[^\n]*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
TOP = {"src", "docs", "tests", "bench", "examples", "deploy", "ui", ".ci"}
PATH = re.compile(rf"(?<![\w/.<~-])((?:{'|'.join(re.escape(top) for top in sorted(TOP))})/[\w./-]*[\w/])")
MADE = ("src/stepward/server/static", "bench/reports", "tests/artifacts")


def snippets(page: Path) -> list[str]:
    return [block or inline for block, inline in CODE.findall(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_exists(page: Path) -> None:
    named = {path for snippet in snippets(page) for path in PATH.findall(snippet)}
    assert sorted(path for path in named if not path.startswith(MADE) and not (ROOT / path).exists()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


def commands() -> set[str]:
    """Every command of the CLI, groups and their members: "ls", "token create"."""
    from stepward.cli.app import app

    found: set[str] = set()

    def walk(group: object, prefix: str) -> None:
        for name, command in getattr(group, "commands", {}).items():
            found.add(f"{prefix}{name}")
            walk(command, f"{prefix}{name} ")

    walk(typer.main.get_command(app), "")
    return found


def test_every_command_exists() -> None:
    known = commands()
    assert {"up", "run", "ls", "show", "demo"} <= known
    unknown = set()
    for page in PAGES:
        for snippet in snippets(page):
            for line in snippet.splitlines():
                called = re.match(r"\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\S*/)?stepward ([a-z]+(?: [a-z-]+)*)", line)
                if called:
                    words = called.group(1).split()
                    if words[0] not in known:
                        unknown.add(f"{page.name}: stepward {words[0]}")
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


def test_every_error_code_is_documented() -> None:
    """docs/errors.md names each ``code=`` that the source raises, and no code that nothing raises."""
    source = "\n".join(path.read_text() for path in (ROOT / "src").glob("**/*.py"))
    raised = set(re.findall(r"""code=\(?\s*["']([a-z][a-z0-9_]+)["']""", source))
    documented = set(re.findall(r"^\| `([a-z0-9_]+)`", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert raised - documented == set()
    assert {code for code in documented if code not in source} == set()
