"""The page of a run in a real browser: charts, output, configuration, ranks, and links that restore what was seen."""

import math
import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import FloatRect, Locator, Page, expect

from stepward.model.words import SourceKind

from .conftest import Server
from .feed import now_us

pytestmark = pytest.mark.integration

SPIKE_AT, STEPS = 1234, 4000


@pytest.fixture(scope="module")
def told(server: Server) -> str:
    """A run of two attempts with a spike, NaN, infinities, odd numbers, output, settings and a launcher."""
    started = now_us() - 2 * STEPS * 1_000_000
    again = started + STEPS * 1_000_000
    first = server.writer("story", attempt="a1")
    first.config(
        "story",
        started_at=started,
        ranks=2,
        user={"optim": {"lr": 3e-4, "betas": [0.9, 0.95]}, "secret": "***"},
        software={"packages": {f"package{i}": f"1.{i}" for i in range(200)}},
        system={"devices": {"0": {"name": "H100"}}},
    )
    loss = [2 + math.exp(-i / 800) + (50 if i == SPIKE_AT else 0) for i in range(STEPS)]
    first.points({"train/loss": loss}, started_us=started)
    first.exit(signal="SIGKILL", tail=["the last line"])
    ranks = [server.writer("story", attempt="a2", rank=rank) for rank in (0, 1)]
    for rank in ranks:
        rank.config("story", started_at=again)
        more = [2 + rank.source.rank * 0.5 + math.exp(-(i + 3000) / 800) for i in range(2000)]
        rank.points({"train/loss": more}, first=3000, started_us=again)
        rank.output("".join(f"step {i} loss {1 / (i + 1):.6f} seed {i * 7919 % 104729}\n" for i in range(600)))
        rank.beat(step=4999, phase="forward")
    odd = ranks[0]
    odd.points({"train/broken": [1.0, 2.0, math.nan, math.nan, math.inf, 3.0, -math.inf, 4.0]}, first=3000)
    odd.points(
        {"odd/huge": [1e308, -1e308, 5.0], "odd/zero": [-0.0, -0.0, -0.0], "odd/mixed": [-1.0, 10.0, 1000.0]},
        first=3000,
    )
    odd.points({"odd/" + "long" * 250: [1.0, 1.0], "odd/🚀 speed": [2.0, 3.0]}, first=3000)
    odd.points({"odd/far": [1.0, 2.0]}, first=2**63 - 2)
    wrapper = server.writer("story", attempt="a2", rank=None, kind=SourceKind.WRAPPER)
    wrapper.points({"system/host/cpu": [10.0, 80.0, 30.0]}, unit="%")
    wrapper.beat(alive=[0, 1])
    return first.run


def card(page: Page, metric: str):
    return page.locator(f'[data-metric="{metric}"]')


def pixels(page: Page, metric: str, colour: tuple[int, int, int]) -> int:
    """How many pixels of a chart are (nearly) of a colour."""
    return (
        card(page, metric)
        .locator("canvas")
        .evaluate(
            """(canvas, [r, g, b]) => {
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          let found = 0;
          for (let i = 0; i < data.length; i += 4)
            if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 24 && data[i + 3] > 200) found++;
          return found;
        }""",
            list(colour),
        )
    )


def bluish_in_the_upper_half(page: Page, metric: str) -> int:
    """Pixels of a line above everything but the spike."""
    return (
        card(page, metric)
        .locator("canvas")
        .evaluate(
            """canvas => {
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height / 2).data;
          let found = 0;
          for (let i = 0; i < data.length; i += 4) if (data[i + 2] - data[i] > 30 && data[i + 1] > data[i]) found++;
          return found;
        }"""
        )
    )


def drawn(page: Page, looks: Callable[[], bool]) -> None:
    """Wait until a picture is as it should be: nothing in the document says when a canvas is painted."""
    until = time.monotonic() + 60
    while not looks():
        assert time.monotonic() < until, "the picture never came to look so"
        page.wait_for_timeout(50)


def point_at(page: Page, chart: Locator, share: float) -> FloatRect:
    """Point at a chart that has come to rest, at a share of its width; where its plot is."""
    over = chart.locator(".u-over")
    over.hover()
    box = over.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2)
    return box


BLUE, RED, PURPLE = (0x0B, 0x63, 0xB0), (0xB3, 0x26, 0x1E), (0x6B, 0x4F, 0xA3)


def test_a_chart_draws_its_line_spike_and_restart(server: Server, told: str, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs/{told}?match=train")
    chart = card(page, "train/loss")
    expect(chart.locator("canvas")).to_be_visible()
    expect(chart.get_by_role("img")).to_have_attribute(
        "aria-label", re.compile(r"train/loss over step: .*to 5[23]\.?\d*")
    )
    expect(chart).to_contain_text("abandoned")
    drawn(page, lambda: pixels(page, "train/loss", BLUE) > 100)
    drawn(page, lambda: pixels(page, "train/loss", PURPLE) > 20)
    drawn(page, lambda: bluish_in_the_upper_half(page, "train/loss") > 20)
    shot(page, "run-light")


def test_values_that_are_not_finite_are_marked_where_they_are(server: Server, told: str, page: Page) -> None:
    page.goto(f"{server.url}/runs/{told}?match=broken")
    chart = card(page, "train/broken")
    expect(chart).to_contain_text("2 NaN")
    expect(chart).to_contain_text("1 +Inf")
    expect(chart).to_contain_text("1 −Inf")
    drawn(page, lambda: pixels(page, "train/broken", RED) > 30)
    point_at(page, chart, 2.1 / 7)
    expect(chart.locator(".tooltip")).to_contain_text("NaN")


def test_odd_numbers_and_names_are_shown_right(server: Server, told: str, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs/{told}?match=odd")
    expect(card(page, "odd/huge").get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("from -1e308 to 1e308")
    )
    expect(card(page, "odd/zero").get_by_role("img")).to_have_attribute("aria-label", re.compile("from -0 to -0"))
    expect(card(page, "odd/🚀 speed")).to_be_visible()
    expect(card(page, "odd/far").locator("canvas")).to_be_visible()
    shot(page, "odd")
    page.get_by_role("button", name="Log", exact=True).click()
    expect(card(page, "odd/mixed")).to_contain_text("not on a log scale")
    expect(page.locator(".run-head dl")).to_contain_text("9 223 372 036 854 775 807")


def test_the_crosshair_is_shared_and_the_tooltip_exact(server: Server, told: str, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs/{told}?match=train%7Codd/far&by=rank&marks=0")
    chart = card(page, "train/loss")
    box = point_at(page, chart, 0.8)
    expect(chart.locator(".tooltip")).to_contain_text("step")
    expect(chart.locator(".tooltip")).to_contain_text("rank 1")
    shot(page, "tooltip")
    # Step 3,003 in one chart is the same place on the axis of the other, which reaches from 0 to 4,999.
    point_at(page, card(page, "train/broken"), 0.5)
    expect(card(page, "train/broken").locator(".tooltip")).to_be_visible()
    line = chart.locator(".u-cursor-x")
    wanted = box["width"] * 3003.5 / 4999
    drawn(page, lambda: abs(line.evaluate("line => new DOMMatrix(getComputedStyle(line).transform).m41") - wanted) < 3)


def test_a_zoom_asks_again_and_its_link_restores_the_view(server: Server, told: str, page: Page, context) -> None:
    page.goto(f"{server.url}/runs/{told}?match=train/loss&smooth=0.5&x=relative")
    over = card(page, "train/loss").locator(".u-over")
    box = point_at(page, card(page, "train/loss"), 0.2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 60, steps=5)
    with page.expect_request(lambda request: "/points" in request.url and "start=" in request.url):
        page.mouse.up()
    zoomed = page.locator(".zoomed")
    expect(zoomed).to_be_visible()
    page.get_by_role("button", name="Log", exact=True).click()

    other = context.new_page()
    other.goto(page.url)
    expect(other.locator(".zoomed")).to_have_text(zoomed.inner_text())
    expect(other.get_by_role("button", name="Relative")).to_have_attribute("aria-pressed", "true")
    expect(other.get_by_role("button", name="Log", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(other.get_by_label("Smoothing")).to_have_value("0.5")
    expect(other.get_by_label("Show metrics that match")).to_have_value("train/loss")
    other.close()

    over.dblclick(position={"x": 100, "y": 50})
    expect(zoomed).to_have_count(0)
    expect(page).not_to_have_url(re.compile(r"from="))


def test_an_empty_stretch_says_why(server: Server, told: str, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs/{told}?match=train/broken&from=900000&to=900100")
    empty = card(page, "train/broken").locator(".card-empty")
    expect(empty).not_to_be_empty()
    expect(empty.get_by_role("button", name="Whole range")).to_be_visible()
    shot(page, "empty-chart")


def test_a_card_can_be_pinned_read_as_table_saved_and_made_large(server: Server, told: str, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs/{told}?match=broken")

    def choose(item: str) -> None:
        page.get_by_role("button", name="Actions for train/broken").last.click()
        page.get_by_role("button", name=item).last.click()

    choose("Show as table")
    table = page.get_by_role("dialog").get_by_role("table")
    expect(table).to_contain_text("1 × NaN")
    page.keyboard.press("Escape")
    with page.expect_download() as saved:
        choose("Download CSV")
    assert saved.value.suggested_filename.endswith("train-broken.csv")
    text = saved.value.path().read_text()
    assert text.startswith("metric,unit,rank") and len(text.splitlines()) == 9
    with page.expect_download() as saved:
        choose("Download PNG")
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")
    choose("Pin to the top")
    expect(page.get_by_role("button", name="Pinned 1")).to_be_visible()
    choose("Full screen")
    expect(page.get_by_role("dialog", name="train/broken").locator("canvas")).to_be_visible()
    expect(page).to_have_url(re.compile(r"card=train"))
    shot(page, "full-screen")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_charts_grow_while_points_come(server: Server, page: Page) -> None:
    writer = server.writer("growing")
    writer.config("growing")
    writer.points({"loss": [1.0, 2.0]})
    page.goto(f"{server.url}/runs/{writer.run}")
    image = card(page, "loss").get_by_role("img")
    expect(image).to_have_attribute("aria-label", re.compile(": 2 points"))
    writer.points({"loss": [3.0], "new": [1.0]}, first=2)
    expect(image).to_have_attribute("aria-label", re.compile(": 3 points"))
    expect(card(page, "new").locator("canvas")).to_be_visible()


def test_system_metrics_are_drawn_over_time(server: Server, told: str, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs/{told}/system")
    expect(card(page, "system/host/cpu").get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("over time: 3 points")
    )
    expect(page.get_by_role("button", name="Step")).to_have_count(0)
    shot(page, "system")


def test_the_head_tells_state_and_attempts(server: Server, told: str, page: Page) -> None:
    page.goto(f"{server.url}/runs/{told}")
    attempts = page.get_by_role("list", name="Attempts").get_by_role("listitem")
    expect(attempts).to_have_count(2)
    expect(attempts.first).to_contain_text("crashed · SIGKILL")
    expect(attempts.last).to_contain_text("steps 3 000")


def test_output_is_followed_searched_and_linked(server: Server, page: Page, shot) -> None:
    writer = server.writer("talks")
    writer.config("talks")
    words = ["apple", "pear", "plum", "fig", "quince", "medlar", "sloe"]
    writer.output("".join(f"{words[i % 7]} {words[i * i % 5]} weighs {i * i}\n" for i in range(700)))
    page.goto(f"{server.url}/runs/{writer.run}/logs")
    lines = page.get_by_role("log")
    expect(lines).to_contain_text(f"weighs {699 * 699}")
    writer.output("and then it spoke again\n")
    expect(lines.get_by_text("and then it spoke again")).to_be_in_viewport()

    lines.hover()
    page.mouse.wheel(0, -2000)
    expect(page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "false")
    writer.output("it said this while nobody looked\n")
    page.get_by_label("Search the output").fill("weighs 10000")
    expect(page.get_by_text("1 match", exact=True)).to_be_visible()
    page.keyboard.press("Enter")
    linked = page.locator(".log-lines .linked")
    expect(linked).to_contain_text("weighs 10000")
    expect(linked).to_be_in_viewport()
    shot(page, "logs")

    page.reload()
    expect(page.locator(".log-lines .linked")).to_be_in_viewport()
    expect(page.get_by_role("region", name=re.compile("^Line"))).to_contain_text("weighs 10000")
    page.get_by_role("button", name="Follow").click()
    expect(lines.get_by_text("it said this while nobody looked")).to_be_in_viewport()


def test_repeats_are_one_line_that_opens(server: Server, page: Page) -> None:
    writer = server.writer("repeats")
    writer.config("repeats")
    # The first and the last MiB are never folded, so there has to be more between them.
    line = "loaded shard 17 of the corpus, going on with the next\n"
    for _ in range(12):
        writer.output(line * (250_000 // len(line)))
    middle = 6 * (250_000 // len(line))
    page.goto(f"{server.url}/runs/{writer.run}/logs?line={middle}")
    fold = page.locator(".log-lines .linked .fold")
    expect(fold).to_contain_text("×")
    start = int(page.locator(".log-lines .linked").get_attribute("data-n") or 0)
    fold.click()
    expect(page.locator(f'.log-lines li[data-n="{start + 5}"]')).to_contain_text("loaded shard")
    expect(page.locator(f'.log-lines li[data-n="{start}"] .fold')).to_have_count(0)


def test_configuration_is_three_trees_that_are_searched(server: Server, told: str, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs/{told}/configuration")
    expect(page.get_by_role("region", name="User configuration")).to_contain_text("0.0003")
    page.get_by_label("Search the configuration").fill("package19")
    page.get_by_role("button", name=re.compile("^Software")).click()
    expect(page.get_by_text("packages.package199")).to_be_visible()
    expect(page).to_have_url(re.compile(r"tree=software"))
    page.get_by_label("Search the configuration").fill("")
    shot(page, "configuration")


def test_ranks_show_how_far_each_is_and_last_words(server: Server, told: str, page: Page, shot) -> None:
    page.goto(f"{server.url}/runs/{told}/ranks")
    expect(page.get_by_role("row").filter(has_text="rank 1")).to_contain_text("4 999")
    expect(page.get_by_role("row").filter(has_text="wrapper")).to_be_visible()
    page.get_by_role("button", name="All attempts").click()
    row = page.get_by_role("row").filter(has_text="attempt 1")
    row.get_by_role("button", name="the last line").click()
    expect(page.get_by_role("region", name="Last words")).to_contain_text("SIGKILL")
    shot(page, "ranks")


def test_five_thousand_metrics_mount_few_cards(server: Server, page: Page) -> None:
    writer = server.writer("wide")
    writer.config("wide")
    writer.points({f"layer{i % 100}/weight{i}": [float(i)] for i in range(5000)})
    page.goto(f"{server.url}/runs/{writer.run}")
    expect(page.get_by_text("5 000 metrics")).to_be_visible()
    page.locator(".card canvas").first.wait_for()
    assert page.locator(".card").count() < 40
    page.get_by_label("Show metrics that match").fill("weight4999$")
    expect(card(page, "layer99/weight4999").locator("canvas")).to_be_visible()
    expect(page.locator(".card")).to_have_count(1)


def test_a_run_that_is_not_there_says_so(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/runs/run_00000000000000000000000000")
    expect(page.get_by_role("heading", name="No such run")).to_be_visible()
