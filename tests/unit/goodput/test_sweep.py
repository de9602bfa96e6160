"""The ledger against a brute-force reading of its rules, over random histories."""

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from stepward.goodput import events, history
from stepward.goodput.ledger import account

sys.path.insert(0, str(Path(__file__).parent))

from histories import histories
from sweep import Sweep

EXAMPLES = 5000 if os.environ.get("STEPWARD_TEST_SCALE") == "full" else 300


def ledger(told):
    read, refused = events.read([json.dumps(event).encode() for event in told])
    return history.build(read, refused)


@pytest.mark.scaled
@settings(max_examples=EXAMPLES, deadline=None)
@given(histories())
def test_every_instant_is_where_the_rules_put_it(told):
    built, expected = ledger(told), Sweep(told)
    if expected.empty:
        assert built is None
        return
    found = account(built)
    assert {
        "wall": found.wall,
        "buckets": {bucket: ns for bucket, ns in found.buckets.items() if ns},
        "lost_steps": found.lost_steps,
        "ideal": found.ideal,
        "provisional": found.provisional,
        "rejected": len(built.rejected),
    } == expected.answer()
