"""The server as a process: wiring (``app``), data folder, workers, backups, the UI's files."""
