"""Kubernetes: who a process is inside a pod."""
