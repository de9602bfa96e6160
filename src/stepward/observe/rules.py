"""The rules of people in force: parsed before they are kept, and for those who judge by them."""

import logging
from collections.abc import Callable

from stepward.detect.rules import Rule, parse_rules
from stepward.errors import UsageError
from stepward.model.resources import ProjectRules, instant
from stepward.store.catalog.rules import RulesText, StoredRules

_log = logging.getLogger("stepward.observe")


class UserRules:
    """The rules of all projects.

    Args:
        clock: µs since the epoch.
    """

    def __init__(self, stored: StoredRules, clock: Callable[[], int]) -> None:
        self._stored = stored
        self._clock = clock

    def of(self, project: str) -> tuple[Rule, ...]:
        """The rules that a project's runs are judged by; none where a newer version has kept what this one cannot read."""
        found = self._stored.get(project)
        try:
            return () if found is None else parse_rules(found.text)
        except UsageError as error:
            _log.warning("the rules of project %r are not in force: %s", project, error)
            return ()

    def get(self, project: str) -> ProjectRules:
        """The rules as they were written; an empty text where there are none."""
        found = self._stored.get(project)
        if found is None:
            return ProjectRules(project=project)
        return ProjectRules(
            project=project,
            text=found.text,
            names=[rule.name for rule in self.of(project)],
            changed_at=instant(found.changed_at),
            changed_by=found.changed_by,
        )

    def change(self, project: str, text: str, by: str) -> ProjectRules:
        """Put rules in place of all that there were.

        Raises:
            UsageError: ``bad_rule`` with the ``line`` and the ``reason``; the old ones stay.
        """
        parse_rules(text)
        self._stored.put(project, RulesText(text, self._clock(), by))
        return self.get(project)
