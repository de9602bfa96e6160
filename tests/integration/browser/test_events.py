"""A simulated run out of memory in a real browser: its marks, list and diagnosis with its proof; rules and silences."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from stepward.client.transport import Transport
from stepward.testing.simulator import simulate
from stepward.testing.simulator.live import drive

from .conftest import Server

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def failed(server: Server, context: BrowserContext) -> str:
    """A run whose rank runs out of device memory, sent while a page of all events is open, which has to show it."""
    page = context.new_page()
    page.goto(f"{server.url}/events")
    expect(page.get_by_role("heading", name="Nothing happened")).to_be_visible()
    simulation = simulate(7, kind="gpu_oom", ranks=4, steps=120)
    run = drive(simulation, lambda: Transport(server.url, server.token), speed=60).run
    expect(page.locator('tr[data-event="crash"], tr[data-event="oom"]').first).to_be_visible()
    page.close()
    return run


def test_an_event_is_marked_on_the_charts_and_leads_to_its_page(server: Server, failed: str, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs/{failed}?x=time")
    flags = page.locator('[data-metric="loss"] .flag')
    expect(flags.first).to_be_visible()
    expect(page.locator('[data-metric="loss"] .sign.critical').first).to_be_visible()
    shot(page, "events-charts")
    page.keyboard.press("e")
    expect(flags).to_have_count(0)
    expect(page).to_have_url(re.compile(r"marks=0"))
    page.keyboard.press("e")
    page.locator('[data-metric="loss"] button.flag, [data-metric="loss"] a.flag').last.click()
    # Several events at one place open a menu of links.
    link, head = page.locator(".menu a", has_text=re.compile("crash|oom")), page.locator("h1 .sign.critical")
    expect(link.or_(head).first).to_be_visible()
    if link.count():
        link.first.click()
    expect(page).to_have_url(re.compile(rf"/runs/{failed}/events/det_"))
    expect(page.locator("h1 .sign.critical")).to_be_visible()


def test_the_diagnosis_is_said_above_the_run_and_leads_to_the_line_that_proves_it(
    server: Server, failed: str, page: Page, tmp_path: Path, shot
) -> None:
    page.goto(f"{server.url}/runs/{failed}")
    banner = page.get_by_role("region", name="Diagnosis")
    expect(banner).to_contain_text(re.compile("memory", re.IGNORECASE))
    expect(banner).to_contain_text("confidence")
    banner.get_by_role("link", name="Diagnosis").click()
    cause = page.locator('.cause[data-label="gpu_oom"]').first
    expect(cause).to_contain_text("framework")
    shot(page, "events-diagnosis")
    for name, words in (("Markdown", b"# "), ("HTML", b"<!doctype html>")):
        with page.expect_download() as saved:
            page.get_by_role("link", name=name).click()
        saved.value.save_as(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        assert content.startswith(words)
        assert b"memory" in content
    cause.locator(".proof-link").first.click()
    expect(page).to_have_url(re.compile(r"/logs\?stream=\d+&line=\d+"))
    expect(page.locator(".log-lines .linked")).to_contain_text("out of memory")


def test_the_list_is_filtered_by_its_address_and_walked_by_keys(server: Server, failed: str, page: Page) -> None:
    page.goto(f"{server.url}/runs/{failed}/events")
    rows = page.locator("tr[data-event]")
    expect(rows.first).to_be_visible()
    page.get_by_label("Severity").select_option("critical")
    page.get_by_label("Certainty").select_option("confirmed")
    expect(page).to_have_url(re.compile(r"severity=critical"))
    page.reload()
    expect(page.get_by_label("Severity")).to_have_value("critical")
    expect(rows.first).to_be_visible()
    page.get_by_label("Severity").select_option("info")
    expect(page.get_by_role("heading", name="No event is like that")).to_be_visible()
    page.get_by_role("button", name=re.compile("Show all")).last.click()
    expect(rows.first).to_be_visible()
    page.get_by_label("Severity").blur()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/events/det_"))
    expect(page.locator("main.event")).to_be_visible()
    page.keyboard.press("u")
    expect(page).to_have_url(re.compile(f"/runs/{failed}/events$"))


def test_a_wrong_rule_is_shown_at_its_line_and_a_right_one_is_kept(server: Server, failed: str, page: Page) -> None:
    page.goto(f"{server.url}/settings")
    text = page.get_by_label("Rules as TOML")
    text.fill('[[rule]]\nname = "hot"\nmetric = 3\nwhen = "above"\nthreshold = 90\n')
    page.get_by_role("button", name="Save rules").click()
    expect(page.locator(".numbered .wrong")).to_have_text("3")
    assert text.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)") == "metric = 3"
    text.fill('[[rule]]\nname = "hot"\nmetric = "system/device/temperature"\nwhen = "above"\nthreshold = 90\n')
    page.get_by_role("button", name="Save rules").click()
    expect(page.get_by_text("1 rule in force")).to_be_visible()
    expect(page.locator(".numbered .wrong")).to_have_count(0)


def test_a_silence_is_made_and_ended(server: Server, failed: str, page: Page) -> None:
    page.goto(f"{server.url}/settings")
    expect(page.get_by_text("Nothing is silenced.")).to_be_visible()
    form = page.get_by_role("form", name="New silence")
    form.get_by_label("Type").select_option("crash")
    form.get_by_label("Reason").fill("maintenance")
    form.get_by_role("button", name="Silence").click()
    row = page.get_by_role("row", name=re.compile("maintenance"))
    expect(row).to_contain_text("crash")
    row.get_by_role("button", name="End").click()
    expect(page.get_by_text("Nothing is silenced.")).to_be_visible()
