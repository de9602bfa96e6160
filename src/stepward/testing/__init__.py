"""Shipped test tools: conformance suites that every implementation of a protocol must pass."""
