"""The ledger: every second of every device of a run in exactly one bucket.

Pure: no clock, no I/O, imports ``model`` alone, so that it runs in a server, in the CLI without one, and in replay alike.
The rules, and the words used for them, are those of ``docs/goodput.md``; "rule n" in this package refers to that page.
"""
