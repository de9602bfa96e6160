"""Runs side by side: chosen in the table, a metric of all on one chart, put together by what they share, kept in the address."""

import re

import pytest
from playwright.sync_api import Page, expect

from .conftest import Server

pytestmark = pytest.mark.integration

LEVELS = {"low-a": (1e-4, 3.0), "low-b": (1e-4, 5.0), "high": (1e-3, 9.0)}


@pytest.fixture(scope="module")
def compared(server: Server) -> list[str]:
    """Three runs of a sweep: two with the same rate, of different pace and length."""
    runs = []
    for number, (name, (rate, level)) in enumerate(LEVELS.items()):
        writer = server.writer(name, project="sweep")
        writer.config(name, user={"optim": {"lr": rate, "betas": [0.9, 0.95]}, "seed": number}, ranks=1)
        points = 40 + 10 * number
        writer.points({"loss": [level] * points, f"only/{name}": [1.0] * points}, every=1 + number)
        writer.exit(exit_code=0)
        runs.append(writer.run)
    return runs


def test_runs_are_chosen_in_the_table_and_drawn_on_one_chart(
    server: Server, compared: list[str], page: Page, shot
) -> None:
    page.goto(f"{server.url}/runs?project=sweep&sort=name")
    for name in LEVELS:
        page.get_by_label(f"Select {name}").check()
    page.keyboard.press("c")
    expect(page).to_have_url(re.compile(r"/compare\?run=run_\w+&run=run_\w+&run=run_"))
    expect(page).to_have_title("3 runs compared · stepward")
    chart = page.locator('[data-metric="loss"]').get_by_role("img")
    expect(chart).to_have_attribute("aria-label", re.compile("150 points, 3 lines, from 3 to 9"))
    # What only one of them has logged is a chart, too.
    expect(page.locator('[data-metric="only/high"]').get_by_role("img")).to_be_visible()
    table = page.get_by_role("region", name="Compared runs")
    expect(table.get_by_role("button", name="optim.lr")).to_be_visible()
    expect(table.locator("tbody tr").filter(has_text="high")).to_contain_text("0.001")
    # What they have in common is not said, until it is asked for.
    expect(table.get_by_role("button", name="optim.betas")).to_have_count(0)
    page.get_by_role("button", name="1 setting alike").click()
    expect(table.get_by_role("button", name="optim.betas")).to_be_visible()
    shot(page, "compare")


def test_runs_that_share_a_setting_are_one_line_and_the_address_restores_it(
    server: Server, compared: list[str], page: Page, shot
) -> None:
    page.goto(f"{server.url}/compare?{'&'.join(f'run={run}' for run in compared)}")
    page.get_by_role("button", name="optim.lr").click()
    chart = page.locator('[data-metric="loss"]')
    expect(chart.get_by_role("img")).to_have_attribute("aria-label", re.compile("2 lines, from 3 to 9"))
    expect(chart).to_contain_text("lr 0.0001 (2 runs)")
    page.get_by_role("button", name="Log").click()
    page.reload()
    expect(chart).to_contain_text("lr 0.0001 (2 runs)")
    expect(page.get_by_role("button", name="Log")).to_have_attribute("aria-pressed", "true")
    shot(page, "compare-grouped")
    page.get_by_role("button", name="Leave low-b out").click()
    expect(page.get_by_role("heading", name="2 runs compared")).to_be_visible()
    expect(chart).to_contain_text("lr 0.0001")


def test_a_link_to_runs_that_are_gone_says_so(server: Server, compared: list[str], page: Page) -> None:
    page.goto(f"{server.url}/compare?run={compared[0]}&run={compared[1]}&run=run_gone")
    expect(page.get_by_text("1 run of the link not found: run_gone")).to_be_visible()
    expect(page.locator('[data-metric="loss"]').get_by_role("img")).to_be_visible()
    page.goto(f"{server.url}/compare?run={compared[0]}")
    expect(page.get_by_role("heading", name="Two runs or more are compared")).to_be_visible()
