"""A server with the models of the package and a text to search."""

from collections.abc import Iterator

import pytest

from benchmarks.servers import Server, running


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    answers = ["Parcels arrive on Monday.", "You can pay by card. Invoices are sent by post."]
    (folder / "answers.txt").write_text("\n".join(answers))
    options = ("--index", "answers.txt", "--max-length", "100", "--max-inputs", "300", "--max-bytes", "60000")
    with running(folder, *options, "--log", "json", "--timeout", "120") as server:
        yield server
