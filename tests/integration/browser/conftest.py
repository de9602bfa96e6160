"""A real server, a real Chromium, and runs that were really sent to it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from .feed import Writer

ROOT = Path(__file__).parents[3]
ARTIFACTS = ROOT / "tests" / "artifacts" / "browser"
STATIC = ROOT / "src" / "stepward" / "server" / "static" / "index.html"
ROOT_PATH = "/lab"


class Server:
    """A server process of the tests' own, below a root path, with its data in a folder that goes away."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.folder = folder
        self.url = f"http://127.0.0.1:{self.port}{ROOT_PATH}"
        self.process: subprocess.Popen[str] | None = None
        self.link = ""

    def start(self) -> None:
        """Start, and wait for the line with the link that signs in."""
        names = {"XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "STEPWARD_DIR": "spool"}
        env = {**os.environ, **{name: str(self.folder / part) for name, part in names.items()}, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "stepward", "up", "--data", str(self.folder / "data")]
        command += ["--port", str(self.port), "--root-path", ROOT_PATH]
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        said = []
        for line in self.process.stdout:
            said.append(line)
            found = re.search(r"https?://\S+#login=\S+", line)
            if found:
                self.link = found[0]
                return
        raise AssertionError(f"the server did not start: {''.join(said)}")

    def stop(self) -> None:
        """End the server as an administrator would."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.wait(timeout=120)
        self.process = None

    @property
    def token(self) -> str:
        return (self.folder / "data" / "token").read_text().strip()

    def writer(self, run: str, **more: object) -> Writer:
        return Writer(self.url, self.token, run, **more)  # type: ignore[arg-type]


# A busy machine is slow, not wrong: what is expected comes, or it does not.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if not STATIC.is_file():
        pytest.skip("the UI is not built: make ui")
    made = Server(tmp_path_factory.mktemp("server"))
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for one module: Playwright keeps an event loop running, in which other modules' asyncio could not run."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine: apt install chromium")
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-background-networking"]
        started = playwright.chromium.launch(executable_path=chromium, args=options)
        yield started
        started.close()


@pytest.fixture(scope="module")
def context(server: Server, browser: Browser) -> Iterator[BrowserContext]:
    """A browser that signed in through the one-time link, as a user does."""
    made = browser.new_context(viewport={"width": 1440, "height": 900}, timezone_id="UTC", locale="en-GB")
    made.set_default_timeout(60_000)
    page = made.new_page()
    page.goto(server.link)
    page.get_by_role("link", name="Runs").wait_for()
    assert "login" not in page.url
    page.close()
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that fails the test when a script of it failed."""
    opened = context.new_page()
    failures: list[str] = []
    opened.on("pageerror", lambda error: failures.append(str(error)))
    yield opened
    opened.close()
    assert failures == []


@pytest.fixture
def shot() -> Callable[[Page, str], None]:
    """Keep a picture of a page for people to look at."""

    def keep(page: Page, name: str) -> None:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=ARTIFACTS / f"{name}.png")

    return keep
