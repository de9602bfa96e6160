"""What was done to data on somebody's word: a line each in the log ``stepward.audit``. What was done to clusters, jobs and
nodes is in the catalog (``actions``).
"""

import logging

from stepward.store.catalog import Principal

audit = logging.getLogger("stepward.audit")


def word_of(who: Principal) -> str:
    """Who it was, as such a line names them: the token's id cannot be given to somebody else, its name can."""
    return f"token {who.token} ({who.name!r})"
