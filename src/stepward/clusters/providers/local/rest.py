"""Whether slurmrestd answers."""

import contextlib
import http.client


def rest_answers(port: int, token: str) -> bool:
    """Whether the API answers a ping of root's token."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
    headers = {"X-SLURM-USER-NAME": "root", "X-SLURM-USER-TOKEN": token}
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/slurm/v0.0.38/ping", headers=headers)
        return connection.getresponse().status == 200
    return False
