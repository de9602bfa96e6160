"""The list of runs in a real browser, on a real server."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import Page, expect

from stepward.model import frames

from .conftest import Server
from .feed import now_us

pytestmark = pytest.mark.integration

MANY = 140
"""More than the table loads at once."""


def send_one_of_many(server: Server, i: int) -> None:
    writer = server.writer(f"many-{i}", project="many")
    config = frames.Config(name=f"many-{i:03d}", started_at=now_us(), user={"optim": {"lr": 10.0 ** -(i % 5)}})
    writer.points({"loss": [float(i)]}, also=[frames.part("config", config)])


def test_a_server_without_runs_says_how_to_start_one(server: Server, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs?project=nobody")
    expect(page.get_by_text("stepward run -- python train.py")).to_be_visible()
    expect(page.get_by_text("stepward demo")).to_be_visible()
    shot(page, "no-runs")


def test_a_run_appears_while_one_looks_and_changes_state(server: Server, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs")
    page.get_by_role("heading", name="No runs yet").wait_for()
    writer = server.writer("live", project="live")
    writer.config("appears-live", tags=["fresh"])
    writer.points({"loss": [3.0, 2.5, 2.0]})
    writer.beat(step=2)
    row = page.get_by_role("row").filter(has_text="appears-live")
    with writer.living():
        expect(row.locator("[data-state=running]")).to_be_visible()
        expect(row).to_contain_text("fresh")
        expect(row.get_by_role("cell", name="2", exact=True).first).to_be_visible()
        shot(page, "runs-live")
    writer.exit(exit_code=3)
    expect(row.locator("[data-state=failed]")).to_be_visible()


def test_many_runs_scroll_filter_and_sort(server: Server, page: Page) -> None:
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda i: send_one_of_many(server, i), range(MANY)))
    page.goto(f"{server.url}/runs?project=many&sort=name")
    expect(page.get_by_role("link", name="many-000")).to_be_visible()
    expect(page.get_by_text(f"{MANY} runs")).to_be_visible()
    assert page.locator("tr[data-run]").count() < 80
    box = page.get_by_role("region", name="Runs")
    box.evaluate("box => box.scrollTo(0, box.scrollHeight)")
    expect(page.get_by_role("link", name="many-139")).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type("metric.loss < 3")
    expect(page.get_by_text("3 runs")).to_be_visible()
    expect(page).to_have_url(re.compile(r"filter=metric\.loss"))
    page.get_by_role("button", name="loss").click()
    expect(page.locator("tr[data-run] a").first).to_have_text("many-002")
    expect(page).to_have_url(re.compile(r"sort=\-metric\.loss"))


def test_a_filter_that_is_wrong_is_marked_where_it_is(server: Server, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs")
    page.get_by_label("Filter runs").fill('state = "running" AND AND')
    problem = page.get_by_role("alert")
    expect(problem).to_be_visible()
    expect(problem.locator("mark")).to_have_count(1)
    expect(page.get_by_label("Filter runs")).to_have_attribute("aria-invalid", "true")
    shot(page, "bad-filter")


def test_tags_and_notes_are_edited_in_place_and_kept(server: Server, page: Page) -> None:
    server.writer("edited", project="edited").config("edited")
    page.goto(f"{server.url}/runs?project=edited")
    row = page.get_by_role("row").filter(has_text="edited").last
    row.hover()
    row.get_by_role("button", name="Add tags").click()
    page.keyboard.type("baseline h100")
    with page.expect_response(lambda answer: answer.request.method == "PATCH"):
        page.keyboard.press("Enter")
    row.hover()
    row.get_by_role("button", name="Add notes").click()
    page.keyboard.type("before the change of tokenizer")
    with page.expect_response(lambda answer: answer.request.method == "PATCH"):
        page.keyboard.press("Enter")
    page.reload()
    expect(page.get_by_role("row").filter(has_text="baseline").filter(has_text="h100")).to_contain_text("tokenizer")


def test_columns_of_metrics_and_configuration_are_chosen(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/runs?project=many&sort=name")
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("optim.lr").check()
    expect(page.get_by_role("columnheader", name="optim.lr")).to_be_visible()
    expect(page.locator("tr[data-run]").nth(1)).to_contain_text("0.1")
    expect(page).to_have_url(re.compile(r"config"))


def test_the_keyboard_opens_selects_and_helps(server: Server, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs?project=many&sort=name")
    page.get_by_role("link", name="many-000").wait_for()
    for key in "jjx":
        page.keyboard.press(key)
    expect(page.get_by_text("1 selected")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("button", name="stepward diff")).to_be_visible()
    page.keyboard.press("Escape")
    expect(
        page.get_by_text("selected", exact=False).locator("visible=true").filter(has_text="2 selected")
    ).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("Next run")
    shot(page, "help")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="many-002")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(page.get_by_role("region", name="Runs")).to_be_visible()


def test_a_browser_without_a_session_is_asked_for_a_token(server: Server, browser, shot) -> None:
    page = browser.new_page()
    page.goto(f"{server.url}/runs?project=many")
    page.get_by_label("Token or one-time link").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    shot(page, "login")
    page.get_by_label("Token or one-time link").fill(server.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text(f"{MANY} runs")).to_be_visible()
    page.close()


def test_a_lost_server_is_said_and_found_again(server: Server, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs?project=many&sort=name")
    page.get_by_role("link", name="many-000").wait_for()
    server.stop()
    try:
        expect(page.get_by_text("The server does not answer")).to_be_visible()
        expect(page.get_by_role("link", name="many-000")).to_be_visible()
        shot(page, "offline")
    finally:
        server.start()
    writer = server.writer("after", project="many")
    writer.config("a-came-after")
    expect(page.get_by_text("The server does not answer")).to_have_count(0, timeout=60_000)
    expect(page.get_by_role("link", name="a-came-after")).to_be_visible()


def test_tokens_are_made_and_deleted(server: Server, page: Page, shot) -> None:
    page.goto(f"{server.url}/settings")
    page.get_by_label("Name", exact=True).fill(f"ci {time.time_ns()}")
    page.get_by_role("button", name="Create").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre")).not_to_be_empty()
    dialog.get_by_role("button", name="Close").click()
    row = page.get_by_role("row").filter(has_text="ci ")
    expect(row).to_contain_text("ingest")
    shot(page, "settings")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("row").filter(has_text="ci ")).to_have_count(0)
