"""Clusters, jobs and nodes in a real browser, on a real Slurm that the server made: seen, filtered, changed, linked to runs."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from playwright.sync_api import Browser, Page, TimeoutError, expect

from stepward.client.api import Client
from stepward.clusters.providers.local.needs import is_usable
from stepward.model.jobs import JobSubmission
from stepward.model.resources import NewToken
from stepward.model.words import TokenKind
from stepward.orchestrators.slurm.commands import Slurm

from .conftest import ROOT, Server

pytestmark = pytest.mark.integration

T = TypeVar("T")
WAIT_S = 120.0
AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
SPEC = {
    "display_name": "lab",
    "node_pools": [
        {
            "id": "n",
            "min_nodes": 2,
            "max_nodes": 3,
            "shape": {"cpus": 4, "memory_mb": 4000, "gpus": 2, "gpu_type": "h100"},
        }
    ],
    "partitions": [
        {"id": "main", "node_pools": ["n"], "default": True},
        {"id": "shut", "node_pools": ["n"], "up": False},
    ],
    "controller": {"accounting": True, "rest": False},
    "slurm": {"cred_expire_s": 5, "kill_wait_s": 2},
}


def until(look: Callable[[], T], seconds: float = WAIT_S) -> T:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.2)
    raise AssertionError(f"did not come true in {seconds} s")


class Lab:
    """A cluster of the server under test, with a job that runs, one that is held, and one whose partition is down."""

    def __init__(self, server: Server) -> None:
        self.client, self.folder = Client(server.url, server.token), server.folder
        self.ended(self.client.create_cluster("lab", SPEC).id)
        self.conf = self.client.cluster("lab").slurm_conf
        self.slurm = Slurm(self.conf)
        self.running = self.submit(name="train-7b", command=["/bin/sh", "-c", "echo step 1; exec sleep 900"], nodes=1)
        self.held = self.submit(name="sweep", command=["sleep", "900"], hold=True)
        self.shut = self.submit(name="closed", command=["true"], partition="shut")

    def submit(self, **asked: object) -> str:
        job = self.client.submit_job("lab", JobSubmission(mem="100M", output=f"{self.folder}/%j.out", **asked)).id  # type: ignore[arg-type]
        assert job is not None
        return job

    def ended(self, operation: str) -> None:
        done = until(lambda: (one := self.client.operation(operation)).state != "running" and one)
        assert done.state == "done", done.error

    def run_of(self, job: str) -> str:
        return until(lambda: self.client.job("lab", job).run)


@pytest.fixture(scope="module")
def lab(server: Server) -> Iterator[Lab]:
    why = is_usable()
    if why is not None:
        pytest.skip(f"no real Slurm: {why}")
    made = Lab(server)
    yield made
    made.ended(made.client.delete_cluster("lab").id)


def test_the_list_of_clusters_shows_state_nodes_and_the_operation(server: Server, lab: Lab, page: Page, shot) -> None:
    page.goto(f"{server.url}/clusters")
    row = page.locator('tr[data-cluster="lab"]')
    expect(row).to_contain_text("ready")
    expect(row).to_contain_text("2 up")
    expect(row).to_contain_text("1 off or silent")
    expect(row).to_contain_text("create done")
    operation = lab.client.update_cluster("lab", SPEC).id
    expect(row).to_contain_text(re.compile("update"))
    lab.ended(operation)
    expect(row).to_contain_text("update done")
    shot(page, "clusters-list")
    row.get_by_role("link", name="lab").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("lab")
    expect(page.locator('tr[data-partition="shut"]')).to_contain_text("down")
    expect(page.get_by_text("4 CPUs, 3.9 GiB, 2 h100")).to_be_visible()


def test_a_drained_node_says_why_on_its_tile_and_its_page(server: Server, lab: Lab, page: Page, shot) -> None:
    lab.slurm.update_node("n-1", state="DRAIN", reason="admin: new fan")
    page.goto(f"{server.url}/clusters/lab")
    tile = page.locator('[data-node="n-1"]')
    expect(tile).to_contain_text("drained")
    expect(tile).to_contain_text("admin: new fan")
    shot(page, "cluster")
    tile.get_by_role("link").click()
    expect(page.get_by_role("status").filter(has_text="drained: admin: new fan")).to_be_visible()
    lab.slurm.update_node("n-1", state="RESUME")
    expect(page.get_by_text("admin: new fan")).to_have_count(0)


def test_a_node_shows_heartbeat_checks_readings_and_jobs(server: Server, lab: Lab, page: Page, shot) -> None:
    node = until(lambda: next(iter(lab.client.job("lab", lab.running).nodes), None))
    assert node is not None
    until(lambda: lab.client.node("lab", node).checks)
    page.goto(f"{server.url}/clusters/lab/nodes/{node}")
    expect(page.get_by_role("heading", level=1)).to_have_text(node)
    expect(page.locator('[data-word="heard"]')).to_be_visible()
    expect(page.locator('[data-check="slurmd"]')).to_contain_text("ok")
    for check in lab.client.node("lab", node).checks:
        if check.result == "unknown":
            expect(page.locator(f'[data-check="{check.name}"]')).to_contain_text(check.reason)
    expect(page.locator(f'tr[data-job="{lab.running}"]')).to_contain_text("running")
    expect(page.locator(f'tr[data-job="{lab.shut}"]')).to_have_count(0)
    expect(page.locator('[data-metric="system/host/load"] canvas')).to_be_visible()
    shot(page, "node")
    page.locator(f'tr[data-job="{lab.running}"]').get_by_role("link", name=lab.running, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("train-7b")


def test_the_queue_says_why_a_job_waits_and_is_filtered_and_walked_by_keys(
    server: Server, lab: Lab, page: Page, shot
) -> None:
    page.goto(f"{server.url}/clusters/lab/jobs")
    expect(page.locator(f'tr[data-job="{lab.running}"]')).to_contain_text("running")
    expect(page.locator(f'tr[data-job="{lab.shut}"]')).to_contain_text("its partition is down")
    expect(page.locator(f'tr[data-job="{lab.shut}"]')).to_contain_text("or use another one")
    shot(page, "jobs")
    page.get_by_role("button", name="Waiting").click()
    expect(page.locator(f'tr[data-job="{lab.running}"]')).to_have_count(0)
    expect(page).to_have_url(re.compile(r"state=queued"))
    page.keyboard.press("/")
    page.keyboard.type("sweep")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-job]")).to_have_count(1)
    page.reload()
    expect(page.locator("tr[data-job]")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("sweep")
    page.keyboard.press("u")
    expect(page.locator(f'tr[data-job="{lab.running}"]')).to_be_visible()
    page.get_by_label("User").fill("nobody-of-that-name")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No job fits")).to_be_visible()


def test_a_new_job_appears_without_a_reload(server: Server, lab: Lab, page: Page) -> None:
    page.goto(f"{server.url}/clusters/lab/jobs")
    page.locator(f'tr[data-job="{lab.running}"]').wait_for()
    job = lab.submit(name="brief", command=["false"])
    row = page.locator(f'tr[data-job="{job}"]')
    expect(row).to_contain_text("failed", timeout=60_000)
    expect(row).to_contain_text("exit code 1")


def test_an_administrator_releases_and_cancels_with_a_reason_that_the_audit_keeps(
    server: Server, lab: Lab, page: Page, shot
) -> None:
    page.goto(f"{server.url}/clusters/lab/jobs/{lab.held}")
    expect(page.get_by_role("note")).to_contain_text("held")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Leave it").click()
    assert lab.client.job("lab", lab.held).state == "queued"
    page.get_by_role("button", name="Release").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("data is there")
    shot(page, "job-release")
    dialog.get_by_role("button", name="Release the job").click()
    expect(page.locator(".run-head .chip")).to_have_text("running")
    expect(page.get_by_text("data is there")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
    expect(page.locator(".run-head .chip")).to_have_text("cancelled")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    kinds = [action.kind for action in lab.client.actions(cluster="lab", job=lab.held).items]
    assert kinds == ["cancel", "release"]


def test_an_administrator_drains_a_node_and_gives_it_back(server: Server, lab: Lab, page: Page, shot) -> None:
    page.goto(f"{server.url}/clusters/lab/nodes/n-1")
    page.get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog", name="Drain n-1?")
    dialog.get_by_role("button", name="Drain the node").click()
    expect(dialog).to_be_visible()  # without a reason nothing is asked
    assert lab.slurm.node("n-1").usable
    dialog.get_by_label("Reason").fill("noisy fan")
    shot(page, "node-drain")
    dialog.get_by_role("button", name="Drain the node").click()
    expect(page.get_by_role("status").filter(has_text=": noisy fan")).to_be_visible()
    expect(page.locator(".audit")).to_contain_text("node drain")
    assert not lab.slurm.node("n-1").usable
    page.get_by_role("button", name="Give back").click()
    dialog = page.get_by_role("dialog", name="Give n-1 back?")
    expect(dialog).to_contain_text("noisy fan")
    dialog.get_by_role("button", name="Give it back").click()
    expect(page.get_by_role("button", name="Drain")).to_be_visible()
    until(lambda: lab.slurm.node("n-1").usable)
    kinds = [action.kind for action in lab.client.actions(cluster="lab", node="n-1").items]
    assert kinds == ["node_resume", "node_drain"]


def test_a_cluster_is_changed_by_its_specification_after_its_plan_was_shown(
    server: Server, lab: Lab, page: Page, shot
) -> None:
    page.goto(f"{server.url}/clusters/lab")
    page.get_by_role("button", name="Actions for this cluster").click()
    page.get_by_role("button", name="Edit the specification").click()
    text = page.get_by_label("Specification as YAML")
    shot(page, "cluster-edit")
    kept = text.input_value()
    assert "display_name: lab" in kept and "slurmd_timeout_s: 30" in kept
    text.fill(kept.replace("min_nodes: 2", "min_nodes: 9"))
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("alert")).to_contain_text("9 is more than max_nodes, 3")
    expect(text).to_have_attribute("aria-invalid", "true")
    text.fill(kept.replace("slurmd_timeout_s: 30", "slurmd_timeout_s: 33"))
    page.get_by_role("button", name="Show the plan").click()
    dialog = page.get_by_role("dialog", name="Update lab?")
    expect(dialog).to_contain_text("slurm: slurmd_timeout_s 30 → 33")
    shot(page, "cluster-plan")
    dialog.get_by_role("button", name="Leave it").click()
    expect(text).to_have_value(re.compile("slurmd_timeout_s: 33"))  # back to what was written, and nothing is done
    assert lab.client.cluster("lab").spec["slurm"]["slurmd_timeout_s"] == 30
    page.get_by_role("button", name="Show the plan").click()
    dialog.get_by_label("Reason").fill("slow network")
    dialog.get_by_role("button", name="Update the cluster").click()
    expect(dialog).to_have_count(0)
    until(lambda: lab.client.cluster("lab").spec["slurm"]["slurmd_timeout_s"] == 33)
    operation = lab.client.cluster("lab").operation
    assert operation is not None and operation.kind == "update"
    lab.ended(operation.id)
    (record,) = lab.client.actions(cluster="lab", kind="cluster_update", limit=1).items
    assert (record.outcome, record.reason) == ("done", "slow network")
    assert record.data == {"changes": ["slurm: slurmd_timeout_s 30 → 33"], "operation": operation.id}
    expect(page.locator(".audit")).to_contain_text("slow network")


def test_deleting_a_cluster_asks_for_its_name_and_says_what_goes(server: Server, lab: Lab, page: Page, shot) -> None:
    page.goto(f"{server.url}/clusters/lab")
    page.get_by_role("button", name="Actions for this cluster").click()
    page.get_by_role("button", name="Delete the cluster").click()
    dialog = page.get_by_role("dialog", name="Delete lab?")
    expect(dialog.locator(".plan li").first).to_be_visible()
    delete = dialog.get_by_role("button", name="Delete the cluster")
    expect(delete).to_be_disabled()
    dialog.get_by_label("Type lab to go on").fill("lab")
    expect(delete).to_be_enabled()
    shot(page, "cluster-delete")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert lab.client.cluster("lab").state != "deleting"


def test_job_and_run_lead_to_each_other(server: Server, lab: Lab, page: Page, shot) -> None:
    run = lab.run_of(lab.running)
    page.goto(f"{server.url}/clusters/lab/jobs/{lab.running}")
    expect(page.locator('tr[data-attempt="1"]')).to_contain_text("running")
    expect(page.get_by_role("region", name="Output", exact=False)).to_have_text("step 1")
    page.get_by_role("link", name="Open its run").click()
    expect(page).to_have_url(re.compile(f"runs/{run}$"))
    facts = page.locator(".run-head dl")
    expect(facts).to_contain_text("Partitionmain")
    facts.get_by_role("link", name=re.compile(r"^n-\d$")).wait_for()
    page.get_by_role("link", name="System").click()
    expect(page.get_by_label("Node and attempt")).to_be_visible()
    expect(page.locator('.run-nodes [data-metric="system/host/cpu"] canvas')).to_be_visible()
    shot(page, "run-nodes")
    facts.get_by_role("link", name=lab.running, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("train-7b")


def test_a_queued_run_says_why_it_waits(server: Server, lab: Lab, page: Page) -> None:
    page.goto(f"{server.url}/runs/{lab.run_of(lab.shut)}")
    expect(page.locator(".run-head .reason")).to_contain_text("its partition is down")
    page.locator(".run-head dl").get_by_role("link", name=lab.shut, exact=True).click()
    expect(page.get_by_role("note")).to_contain_text("its partition is down")


def test_a_viewer_sees_all_this_and_changes_nothing(server: Server, lab: Lab, browser: Browser) -> None:
    secret = lab.client.create_token(NewToken(name="looks", kind=TokenKind.VIEWER)).secret
    context = browser.new_context()
    context.request.post(f"{server.url}/api/v1/login", data={"secret": secret})
    page = context.new_page()
    page.goto(f"{server.url}/clusters/lab/jobs/{lab.running}")
    page.get_by_role("link", name="Open its run").wait_for()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    page.goto(f"{server.url}/clusters/lab")
    page.get_by_role("button", name="Actions for this cluster").click()
    expect(page.get_by_role("button", name="Copy as command")).to_be_visible()
    for name in ("Delete the cluster", "Edit the specification"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    page.goto(f"{server.url}/clusters/lab/nodes/n-1")
    page.get_by_role("link", name="All readings").wait_for()
    expect(page.get_by_role("button", name=re.compile("Drain|Give back"))).to_have_count(0)
    context.close()


def test_what_is_not_there_is_said(server: Server, lab: Lab, page: Page) -> None:
    for path, words in {
        "clusters/none": "No such cluster",
        "clusters/lab/jobs/999999": "No job 999999",
        "clusters/lab/nodes/x": "No node x",
    }.items():
        page.goto(f"{server.url}/{path}")
        expect(page.get_by_role("heading", name=words)).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_of_a_cluster_has_a_serious_fault_of_accessibility_or_is_too_wide(
    server: Server, lab: Lab, browser: Browser, scheme: str, shot
) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm ci in ui/")
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    context.request.post(f"{server.url}/api/v1/login", data={"secret": server.token})
    page = context.new_page()
    views = {
        "clusters": "[data-cluster]",
        "clusters/lab": "[data-node]",
        "clusters/lab/jobs": "[data-job]",
        f"clusters/lab/jobs/{lab.running}": "[data-attempt]",
        "clusters/lab/nodes/n-0": "[data-metric] canvas",
    }
    found = {}
    for path, there in views.items():
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(f"{server.url}/{path}")
        page.locator(there).first.wait_for()
        page.evaluate(AXE.read_text())
        # All else that is looked for is alike in light and dark.
        rules = "{runOnly: ['color-contrast']}" if scheme == "dark" else "{}"
        faults = page.evaluate(f"axe.run({rules}).then(result => result.violations)")
        serious = [
            (one["id"], [node["html"][:160] for node in one["nodes"][:3]])
            for one in faults
            if one["impact"] in ("serious", "critical")
        ]
        page.set_viewport_size({"width": 400, "height": 900})
        # A page that is too wide stays so, and is told below with all others.
        with contextlib.suppress(TimeoutError):
            page.wait_for_function("() => document.documentElement.scrollWidth <= 400", timeout=10_000)
        shot(page, f"{path.replace('/', '-').replace(lab.running, 'job')}-{scheme}-400")
        width = page.evaluate("document.documentElement.scrollWidth")
        if serious or width > 400:
            found[path] = (serious, width)
    context.close()
    assert found == {}
