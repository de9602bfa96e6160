"""The HTTP API: one module a resource, thin over catalog, points and logs (``docs/api.md``).

``routes.py`` lists what there is, ``door.py`` is what every request passes first, ``auth.py`` says who may go where,
``problems.py`` turns every error into a problem document, ``live.py`` tells browsers what changes. Handlers that block are
plain functions and run in threads.
"""
