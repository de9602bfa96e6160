"""Conformance suite of the ledger: timelines whose truth is known, for any ``ledger(lines) -> dict``.

``cases.cases()`` has them all: the shipped files in ``timelines/`` with ``truth.json``, and the stories of ``stories``,
whose truth is made by construction while their events are written. ``suite.GoodputSuite`` asks a ledger about each under
pytest; ``cases.differences`` compares one answer without it.
"""
