import pytest

from tests.downloads.local_server import serving


@pytest.fixture
def server(monkeypatch):
    """A server on this machine, reached without whatever proxy this machine has."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as service:
        yield service
