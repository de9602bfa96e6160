"""Slurm: who a process is inside a job (``identity``), what the cluster knows, and what it is told (``commands``).

``commands`` asks (``asking``) for tables that nobody can forge (``table``), which become records (``reading``,
``cluster_reading``, ``records``) with states of ours (``states``) and reasons in words (``reasons``). ``submission``
checks a job before Slurm sees it, ``output`` reads the end of its output.
"""
