"""Where the agents and the watcher of a cluster report: this server, with tokens that may only write."""

from stepward.clusters.companions import Server
from stepward.model.resources import NewToken
from stepward.model.words import NODES_PROJECT, TokenKind
from stepward.store.catalog import Access


class Reporting:
    """Keeps two tokens a cluster: its agents write to the project of nodes alone, its watcher to any.

    Args:
        url: where this server is reached.
    """

    def __init__(self, access: Access, url: str) -> None:
        self._access = access
        self._url = url

    def server(self, slurm_name: str, remembered: Server | None) -> Server:
        """What the companions of a cluster are given now; its tokens stay as long as they are good."""
        if remembered is not None and all(
            map(self._access.by_token, (remembered.agent_token, remembered.watcher_token))
        ):
            return Server(url=self._url, agent_token=remembered.agent_token, watcher_token=remembered.watcher_token)
        self.forget(slurm_name)
        return Server(
            url=self._url,
            agent_token=self._new(f"{_prefix(slurm_name)}agents", [NODES_PROJECT]),
            watcher_token=self._new(f"{_prefix(slurm_name)}watcher", None),
        )

    def forget(self, slurm_name: str) -> None:
        """Revoke the tokens of a cluster."""
        for token in self._access.tokens():
            if token.name.startswith(_prefix(slurm_name)) and token.kind is TokenKind.INGEST:
                self._access.delete(token.id)

    def _new(self, name: str, projects: list[str] | None) -> str:
        secret = self._access.create(NewToken(name=name, kind=TokenKind.INGEST, projects=projects)).secret
        assert secret is not None, "a new token has its secret"
        return secret


def _prefix(slurm_name: str) -> str:
    return f"cluster {slurm_name}: "
