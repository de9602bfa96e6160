"""The crash-safe journal of a process and what ships it (docs/spool.md, docs/wire.md).

Journals are written in the training process without a system call; a background thread, a wrapper or ``stepward sync``
cuts them into frames and delivers each byte range once. Nothing here knows what a metric means.
"""
