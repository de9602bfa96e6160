"""Columns of runs with many metrics, and the retention of a project, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from .conftest import Server
from .feed import now_us

pytestmark = pytest.mark.integration


def test_a_metric_beyond_the_few_is_found_shown_and_kept_live(server: Server, page: Page) -> None:
    writer = server.writer("wide", project="wide")
    writer.config("wide-one")
    writer.points({f"layer.{i:03d}": [float(i)] for i in range(60)} | {"loss": [0.5]})
    writer.beat(step=0)
    with page.expect_response(lambda answer: "/api/v1/runs?" in answer.url) as few:
        page.goto(f"{server.url}/runs?project=wide")
    assert few.value.text().count('"layer.') < 20
    row = page.get_by_role("row").filter(has_text="wide-one")
    expect(row.get_by_role("cell", name="0.5")).to_be_visible()
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("searchbox", name="Find a column").fill("layer.059")
    with page.expect_response(lambda answer: "/api/v1/runs?" in answer.url and "layer.059" in answer.url) as chosen:
        page.get_by_label("layer.059").check()
    assert chosen.value.text().count('"layer.') == 2
    expect(row.get_by_role("cell", name="59", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    writer.points({"layer.059": [7.25]}, first=1)
    expect(row.get_by_role("cell", name="7.25")).to_be_visible()


def test_an_admin_is_told_what_a_retention_deletes_before_it_holds(server: Server, page: Page, shot) -> None:
    old = server.writer("old", project="kept")
    old.config("long-over", started_at=now_us() - 50 * 86_400_000_000)
    old.exit(exit_code=0, at=now_us() - 40 * 86_400_000_000)
    page.goto(f"{server.url}/settings")
    choice = page.get_by_label("How long kept keeps ended runs")
    choice.select_option("90 days")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This deletes nothing now.")
    dialog.get_by_role("button", name="Set").click()
    expect(choice).to_have_value(str(90 * 86400))
    choice.select_option("30 days")
    expect(dialog).to_contain_text("This deletes 1 run within minutes.")
    shot(page, "retention")
    dialog.get_by_role("button", name="Leave it").click()
    expect(choice).to_have_value(re.compile(str(90 * 86400)))
