"""``stepward run``: supervises the processes of a job, keeps their output, and tells how they ended.

The flow is plan → spawn → output, signals, readings → exits → record. Nothing in here may keep a command from starting
or harm it while it runs: what fails is said once on stderr and left out.
"""
