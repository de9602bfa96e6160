"""Slurm: who a process is inside a job."""
