"""The catalog: projects, runs, attempts, sources, latest values, configuration, events, credentials.

It follows committed frames (``applying``), judges states (``standing``), answers questions about runs (``runs``) and keeps
who may ask (``access``). Points and output rest elsewhere.
"""

from stepward.store.catalog.access import Access, Principal
from stepward.store.catalog.applying import CatalogApplier
from stepward.store.catalog.changes import Change, Listener, nobody
from stepward.store.catalog.claims import Claims
from stepward.store.catalog.database import Database
from stepward.store.catalog.edits import Edits
from stepward.store.catalog.mending import Mending, Survivor
from stepward.store.catalog.migrating import open_database
from stepward.store.catalog.newest import Metrics
from stepward.store.catalog.retention import Retention
from stepward.store.catalog.runs import RunHead, Runs

__all__ = [
    "Access",
    "CatalogApplier",
    "Change",
    "Claims",
    "Database",
    "Edits",
    "Listener",
    "Mending",
    "Metrics",
    "Principal",
    "Retention",
    "RunHead",
    "Runs",
    "Survivor",
    "nobody",
    "open_database",
]
