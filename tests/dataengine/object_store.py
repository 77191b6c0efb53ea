"""A real S3 protocol server which tests may stop and start again."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import fsspec
from moto.server import ThreadedMotoServer

ACCESS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


class S3Server:
    """moto's server on a port of its own; a stopped one keeps what it holds, as a real one does."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.start()

    def start(self) -> None:
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)
        self.server.start()

    def stop(self) -> None:
        self.server.stop()

    def environment(self) -> dict[str, str]:
        return ACCESS | {"AWS_ENDPOINT_URL": self.url}

    def files(self) -> Any:
        """A client of its own, to look at what is there."""
        return fsspec.filesystem("s3", key="test", secret="test", endpoint_url=self.url, use_listings_cache=False,
                                 skip_instance_cache=True)

    def bucket(self, name: str, folder: Path | None = None) -> str:
        """A new bucket, with a copy of `folder` under data/."""
        files = self.files()
        files.mkdir(name)
        for path in sorted(folder.rglob("*")) if folder else []:
            if path.is_file():
                files.put_file(str(path), f"{name}/data/{path.relative_to(folder).as_posix()}")
        return f"s3://{name}/data"
