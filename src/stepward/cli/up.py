"""``stepward up``: the server, in the foreground. The only command that loads it."""

from typing import Annotated

import typer

from stepward.cli.extra import needs

app = typer.Typer()


@app.command()
def up(
    *,
    data: Annotated[
        str, typer.Option(metavar="DIR", help="Folder that holds everything. Default: ~/.local/share/stepward.")
    ] = "",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 7070,
    root_path: Annotated[str, typer.Option(metavar="/x", help="Path below which a proxy serves it.")] = "",
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="Further name by which it may be asked for, as behind a proxy; repeatable.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Accept a data folder on a network file system.")] = False,
) -> None:
    """Serve until Ctrl-C or SIGTERM; prints a link that signs your browser in."""
    with needs("server"):
        from stepward.server.app import ServerSettings
        from stepward.server.serving import serve

    serve(
        ServerSettings(
            data=data,
            host=host,
            port=port,
            root_path=root_path,
            allowed_hosts=tuple(allowed_host or ()),
            force=force,
        )
    )
