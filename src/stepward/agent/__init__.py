"""One a node: readings, Slurm jobs, kernel log, health checks and exporters, into the run of the node (docs/agent.md)."""
