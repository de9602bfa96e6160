"""The accounting database: an own MariaDB in the cluster's folder, with one account for slurmdbd."""

import os
import secrets
import shutil

from stepward.clusters.providers.local.commands import run
from stepward.clusters.providers.local.layout import Layout
from stepward.clusters.record import write_atomically

INSTALL_S = 120.0


def password(layout: Layout) -> str:
    """The account's password, made where there is none."""
    path = layout.path("etc", "database.password")
    if not os.path.exists(path):
        write_atomically(path, secrets.token_hex(24).encode(), 0o600)
    with open(path) as file:
        return file.read()


def write_accounts(layout: Layout, secret: str) -> None:
    """Write what the database does at each start: it makes Slurm's database and account where they are not."""
    account = "slurm@'127.0.0.1'"
    lines = [
        "CREATE DATABASE IF NOT EXISTS slurm_acct_db;",
        f"CREATE USER IF NOT EXISTS {account} IDENTIFIED BY '{secret}';",
        f"GRANT ALL ON slurm_acct_db.* TO {account};",
    ]
    write_atomically(layout.path("etc", "database.sql"), ("\n".join(lines) + "\n").encode(), 0o600)


def install(layout: Layout) -> None:
    """Make the database's files, whole or not at all.

    Temporary files have a folder of this cluster alone: a MariaDB that starts removes those of all others from its own.
    """
    final, partial = layout.path("database"), layout.path("database.partial")
    if os.path.exists(f"{final}/mysql"):
        return
    shutil.rmtree(partial, ignore_errors=True)
    argv = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={partial}", "--skip-test-db"]
    argv.append(f"--tmpdir={layout.path('tmp')}")
    run(layout, [*argv, "--auth-root-authentication-method=socket", "--skip-name-resolve"], timeout_s=INSTALL_S)
    shutil.rmtree(final, ignore_errors=True)
    os.rename(partial, final)
    os.chmod(final, 0o700)
