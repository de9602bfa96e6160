"""What senders are told to wait for: the headers of problem documents."""

import pytest

from stepward.api.problems import of_error
from stepward.errors import OUTCOMES, StepwardError, StorageFull, Unavailable


@pytest.mark.parametrize(
    ("error", "status", "wait"),
    [
        (Unavailable("busy", code="ingest_busy", retry_after_s=1.0), 503, "1"),
        (Unavailable("damaged", code="store_corrupt", retry_after_s=60.0), 503, "60"),
        (Unavailable("soon", code="store_failed", retry_after_s=0.2), 503, "1"),
        (StorageFull("full", code="disk_full"), 507, "5"),
    ],
)
def test_a_sender_is_told_how_long_to_wait(error: StepwardError, status: int, wait: str) -> None:
    problem, headers = of_error(error)
    assert (problem["status"], problem["code"], headers["Retry-After"]) == (status, error.code, wait)


def test_every_status_of_ours_has_a_title() -> None:
    plain = {status for status, _ in OUTCOMES.values()}
    errors = [kind("x", code="x") for kind in OUTCOMES if not issubclass(kind, ImportError)]
    titles = {document["status"]: document["title"] for document, _ in map(of_error, errors)}
    assert {status for status in plain - {501} if titles[status] == "Error"} == set()
