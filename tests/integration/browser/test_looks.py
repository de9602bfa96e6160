"""How every view looks to everybody: light and dark, wide and narrow, by eye and by assistive technology."""

import math
import re

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from .conftest import ROOT, Server

pytestmark = pytest.mark.integration

AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = {
    "runs": ("runs", "tr[data-run]"),
    "charts": ("runs/{run}", "[data-metric] canvas"),
    "full-screen": ("runs/{run}?card=loss", "dialog canvas"),
    "system": ("runs/{run}/system", "[data-metric] canvas"),
    "logs": ("runs/{run}/logs?line=3", ".log-lines .linked"),
    "configuration": ("runs/{run}/configuration", ".tree li"),
    "ranks": ("runs/{run}/ranks", "tr[data-writer]"),
    "goodput": ("runs/{run}/goodput", "tr[data-bucket]"),
    "fleet": ("goodput", "tbody tr"),
    "compare": ("compare?run={run}&run={failed}", "[data-metric] canvas"),
    "events": ("events", "tr[data-event]"),
    "run-events": ("runs/{failed}/events", "tr[data-event]"),
    "diagnosis": ("runs/{failed}/diagnosis", ".diagnosis"),
    "settings": ("settings", "[aria-label=Tokens] tbody tr"),
    "bad-filter": ("runs?filter=state%20state", ".filter-problem"),
}


@pytest.fixture(scope="module")
def shown(server: Server) -> str:
    """A run that gives every view something to show."""
    writer = server.writer("looks")
    writer.config("pretrain-7b-rope", tags=["ablation", "h100"], user={"optim": {"lr": 3e-4}}, ranks=2)
    writer.points({"loss": [2 + math.exp(-i / 90) for i in range(600)], "grad_norm": [1.0] * 599 + [math.nan]})
    writer.points({"system/host/cpu": [30.0, 60.0, 40.0]}, unit="%")
    writer.output("loading data\nstep 0\nstep 1\nTraceback (most recent call last):\n")
    writer.beat(step=599, phase="forward", dropped=3)
    # Nobody is kept from giving a run a name that no column has room for.
    long = server.writer("long", rank=0)
    long.config("sweep-" + "lr3e-4-wd0.1-bs512-" * 15, tags=["with", "more-tags", "than", "a-column", "has-room-for"])
    long.points({"step/time": [1.0] * 40})
    long.exit(exit_code=0)
    other = server.writer("failed")
    other.config("sft-chat")
    other.exit(exit_code=1, exception="ValueError: shapes (8, 512) and (256, 8) not aligned")
    return writer.run


def look(context: BrowserContext, server: Server, run: str, view: str) -> Page:
    path, there = VIEWS[view]
    page = context.new_page()
    page.goto(f"{server.url}/{path.format(run=run, failed=server.writer('failed').run)}")
    page.locator(there).first.wait_for()
    return page


@pytest.fixture(scope="module", params=["light", "dark"])
def scheme(request: pytest.FixtureRequest, server: Server, browser: Browser):
    """A signed-in browser of a system that is light, or dark."""
    made = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=request.param, timezone_id="UTC")
    made.request.post(f"{server.url}/api/v1/login", data={"secret": server.token})
    yield request.param, made
    made.close()


@pytest.mark.parametrize("view", VIEWS)
def test_no_view_has_a_serious_fault_of_accessibility(server: Server, shown: str, scheme, view: str, shot) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in ui/")
    name, context = scheme
    page = look(context, server, shown, view)
    shot(page, f"{view}-{name}-1440")
    # The page's own policy forbids foreign scripts; the checker is run from outside of it.
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run().then(result => result.violations)")
    serious = [
        (fault["id"], [node["html"][:160] for node in fault["nodes"][:3]])
        for fault in found
        if fault["impact"] in ("serious", "critical")
    ]
    page.close()
    assert serious == []


@pytest.mark.parametrize("width", [800, 400])
@pytest.mark.parametrize("view", VIEWS)
def test_no_view_is_wider_than_the_window(server: Server, shown: str, scheme, view: str, width: int, shot) -> None:
    name, context = scheme
    page = look(context, server, shown, view)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)
    shot(page, f"{view}-{name}-{width}")
    widest = page.evaluate("document.documentElement.scrollWidth")
    # From every view and at every width one gets to every other.
    for link in ("Runs", "Events", "Goodput", "Clusters"):
        expect(page.get_by_role("navigation", name="Main").get_by_role("link", name=link)).to_be_in_viewport()
    page.close()
    assert widest <= width


def test_the_tab_of_the_browser_names_the_run_and_its_state(server: Server, shown: str, page: Page) -> None:
    page.goto(f"{server.url}/runs/{shown}")
    expect(page).to_have_title(re.compile(r"pretrain-7b-rope \(\w+\) · stepward"))
    page.keyboard.press("3")
    expect(page).to_have_url(re.compile("/logs"))
    expect(page).to_have_title(re.compile("pretrain-7b-rope"))
    page.goto(f"{server.url}/runs/{server.writer('failed').run}/diagnosis")
    expect(page).to_have_title(re.compile(r"Diagnosis of sft-chat \(failed\)"))


def test_goodput_of_a_run_whose_steps_nobody_told_is_not_said_without_a_word(
    server: Server, shown: str, page: Page
) -> None:
    page.goto(f"{server.url}/runs/{shown}/goodput")
    expect(page.get_by_text("No step of it is known")).to_be_visible()
    expect(page.locator("tfoot")).to_contain_text("100.0 %")


def test_on_a_narrow_page_the_open_tab_of_a_run_is_in_sight(server: Server, shown: str, page: Page) -> None:
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto(f"{server.url}/runs/{shown}/events")
    tab = page.get_by_role("navigation", name="Views of the run").get_by_role("link", name="Events")
    expect(tab).to_be_in_viewport(ratio=0.9)


def test_dark_follows_the_system_until_the_reader_chooses(server: Server, shown: str, browser: Browser) -> None:
    context = browser.new_context(color_scheme="dark")
    context.request.post(f"{server.url}/api/v1/login", data={"secret": server.token})
    page = look(context, server, shown, "runs")
    background = "getComputedStyle(document.body).backgroundColor"
    page.wait_for_function(f"() => {background} === 'rgb(16, 19, 21)'")
    page.get_by_role("button", name="Light theme").click()
    page.wait_for_function(f"() => {background} === 'rgb(246, 247, 248)'")
    page.reload()
    expect(page.get_by_role("button", name="Dark theme")).to_be_visible()
    page.wait_for_function(f"() => {background} === 'rgb(246, 247, 248)'")
    page.keyboard.press("t")
    page.wait_for_function("() => document.documentElement.dataset.theme === undefined")
    context.close()


def test_motion_rests_where_it_is_not_wanted(server: Server, shown: str, browser: Browser) -> None:
    context = browser.new_context(reduced_motion="reduce")
    context.request.post(f"{server.url}/api/v1/login", data={"secret": server.token})
    page = look(context, server, shown, "runs")
    assert page.evaluate("getComputedStyle(document.querySelector('.chip .shape')).animationName") == "none"
    context.close()
