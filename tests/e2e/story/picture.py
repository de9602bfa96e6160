"""A picture of a page of the server, by a real Chromium that signs in as a person does."""

import shutil
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

WAIT_MS = 30_000


def take_picture(login: str, page: str, path: Path) -> None:
    """Sign in by a one-time link, open a page, wait until it shows its charts, keep a picture.

    Raises:
        playwright.sync_api.Error: a script of the page failed, or it did not come.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            context = browser.new_context(viewport={"width": 1440, "height": 1800}, timezone_id="UTC", locale="en-GB")
            context.set_default_timeout(WAIT_MS)
            tab = context.new_page()
            failures: list[str] = []
            tab.on("pageerror", lambda error: failures.append(str(error)))
            tab.goto(login)
            tab.get_by_role("link", name="Runs").first.wait_for()
            where = urlsplit(login)
            tab.goto(f"{where.scheme}://{where.netloc}{page}")
            tab.locator("canvas").first.wait_for()
            tab.wait_for_timeout(1500)
            tab.screenshot(path=path)
            if failures:
                raise RuntimeError(f"scripts of the page failed: {failures[:3]}")
        finally:
            browser.close()
