"""A specification that is whole, to be bent by the tests."""

import copy

import pytest

WHOLE = {
    "display_name": "lab",
    "provider": "local",
    "node_pools": [
        {
            "id": "gpu",
            "min_nodes": 2,
            "max_nodes": 4,
            "shape": {"cpus": 16, "memory_mb": 64000, "gpus": 8, "gpu_type": "h100"},
            "topology": {"zone": "a", "rack": "r1"},
        },
        {"id": "cpu", "max_nodes": 1, "shape": {"cpus": 4, "memory_mb": 8000}},
    ],
    "partitions": [
        {"id": "main", "node_pools": ["gpu"], "default": True, "max_time": "7-00:00:00"},
        {"id": "all", "node_pools": ["gpu", "cpu"]},
    ],
    "controller": {"accounting": True, "rest": True},
    "network": {"mtu": 1500},
    "storage": [{"kind": "local", "mount": "/tmp", "expect": {"read_mb_s": 200, "write_mb_s": 100.5}}],
    "health": {"policy": "default", "dry_run": False},
    "slurm": {"cred_expire_s": 5, "slurmd_timeout_s": 30},
}


@pytest.fixture
def whole():
    """A copy of a specification without fault."""
    return copy.deepcopy(WHOLE)
