"""The typed client of the HTTP API, used by the spool's shipper, the SDK, the launcher and the CLI."""
