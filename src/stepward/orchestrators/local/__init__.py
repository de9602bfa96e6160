"""Launchers that run on the host itself: torchrun, mpirun, JAX processes, a shell; and what /proc says."""
