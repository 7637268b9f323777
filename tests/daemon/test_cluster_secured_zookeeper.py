"""ZooKeeper by TLS, and nodes that only brokers may change (zookeeper.ssl.*, zookeeper.set.acl).

It needs a real ZooKeeper, as TLS and the rights of its nodes are the subject.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[import-untyped]
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from bench.brokers.processes import WITHIN_S, eventually
from bench.brokers.zookeeper import TlsFiles, ZookeeperServer
from tests.daemon.cluster_broker import KafkadInCluster
from tests.tools.certificates import Authority

PASSWORD = "of the key"
ALL, READ = 31, 1


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates") / "authority")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[ZookeeperServer]:
    keystore = authority.keystore("zookeeper", "IP:127.0.0.1")
    folder = tmp_path_factory.mktemp("zookeeper")
    made = ZookeeperServer(folder, tls=TlsFiles(keystore, authority.truststore))
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def chroot(tmp_path: Path) -> str:
    """Of this test alone, below nothing that only the broker of another may change."""
    return tmp_path.name


def settings_of(server: ZookeeperServer, authority: Authority, chroot: str) -> dict[str, str]:
    return {
        "zookeeper.connect": f"{server.tls_hosts}/{chroot}",
        "node.id": "1",
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(authority.truststore),
    }


def identity(authority: Authority) -> Mapping[str, str]:
    keystore = authority.keystore("broker", "DNS:broker", PASSWORD)
    return {
        "zookeeper.set.acl": "true",
        "zookeeper.ssl.keystore.location": str(keystore),
        "zookeeper.ssl.keystore.type": "PEM",
        "zookeeper.ssl.keystore.password": PASSWORD,
        "zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    }


def permissions(zookeeper: KazooClient, path: str) -> dict[tuple[str, str], int]:
    found, _ = zookeeper.get_acls(path)
    return {(each.id.scheme, each.id.id): each.perms for each in found}


def test_only_the_broker_changes_what_it_made(
    tmp_path: Path, server: ZookeeperServer, authority: Authority, chroot: str
) -> None:
    with ExitStack() as ends:
        settings = {**settings_of(server, authority, chroot), **identity(authority)}
        broker = ends.enter_context(KafkadInCluster(tmp_path / "broker", settings))
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        ends.callback(admin.close)
        admin.create_topics([NewTopic("orders", 2, 1)])
        stranger = KazooClient(f"{server.hosts}/{chroot}")
        stranger.start()
        ends.callback(stranger.close)
        ends.callback(stranger.stop)
        eventually(lambda: stranger.exists("/brokers/topics/orders/partitions/1/state"), what="it is led")
        mine, anyone = ("x509", "CN=broker"), ("world", "anyone")
        for path in ("/", "/brokers/ids/1", "/brokers/topics/orders/partitions/1/state", "/controller", "/cluster/id"):
            assert permissions(stranger, path) == {mine: ALL, anyone: READ}, path
        assert permissions(stranger, "/consumers") == {anyone: ALL}
        with pytest.raises(NoAuthError):
            stranger.set("/controller", b"{}")
        with pytest.raises(NoAuthError):
            stranger.get_children("/config/users")
        assert broker.stop() == 0
        broker.start()
        eventually(lambda: stranger.exists("/brokers/ids/1"), what="it is registered again")


def test_without_a_keystore_it_is_nobody_and_may_join_an_open_tree_only(
    tmp_path: Path, server: ZookeeperServer, authority: Authority, chroot: str
) -> None:
    plain = settings_of(server, authority, chroot)
    with KafkadInCluster(tmp_path / "broker", {**plain, **identity(authority)}) as broker:
        assert broker.stop() == 0
    code, said = refused_start(tmp_path / "nobody", {**plain, "node.id": "2"})
    assert (code, "ZooKeeper does not let this broker change its nodes: NotPermitted: " in said) == (2, True), said
    open_tree = {**plain, "zookeeper.connect": f"{server.tls_hosts}/{chroot}-open"}
    with KafkadInCluster(tmp_path / "open", open_tree) as broker:
        assert broker.stop() == 0


def test_files_that_are_no_use_are_named(
    tmp_path: Path, server: ZookeeperServer, authority: Authority, chroot: str
) -> None:
    right = {**settings_of(server, authority, chroot), **identity(authority)}
    for change, expected in (
        ({"zookeeper.ssl.truststore.location": "/no/such.pem"}, "/no/such.pem has no certificates in PEM format"),
        ({"zookeeper.ssl.keystore.location": str(authority.truststore)}, "has no private key and certificate in PEM"),
        ({"zookeeper.ssl.keystore.password": "wrong"}, "that can be read with this password"),
        ({"zookeeper.ssl.keystore.type": "JKS"}, "is JKS, but only PEM is supported"),
        ({"zookeeper.ssl.client.enable": "false"}, "ZooKeeper must authenticate the broker"),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1.2,SSLv3"}, "has SSLv3; supported are TLSv1.2 and TLSv1.3"),
        ({"zookeeper.ssl.crl.enable": "true"}, "revocation of ZooKeeper's certificate is not checked"),
    ):
        code, said = refused_start(tmp_path / "refused", {**right, **change})
        assert (code, expected in said, "Traceback" in said) == (2, True, False), said


def test_a_server_of_another_authority_or_name_is_not_trusted(
    tmp_path: Path, server: ZookeeperServer, authority: Authority, chroot: str
) -> None:
    other = Authority(tmp_path / "other")
    wrong = {**settings_of(server, authority, chroot), "zookeeper.ssl.truststore.location": str(other.truststore)}
    waits_and_says(tmp_path / "untrusted", wrong, "CERTIFICATE_VERIFY_FAILED")
    port = server.tls_hosts.rpartition(":")[2]
    named = {**settings_of(server, authority, chroot), "zookeeper.connect": f"localhost:{port}/{chroot}-named"}
    waits_and_says(tmp_path / "named", named, "Hostname mismatch")
    unchecked = {**named, "zookeeper.ssl.endpoint.identification.algorithm": ""}
    with KafkadInCluster(tmp_path / "unchecked", unchecked) as broker:
        assert broker.stop() == 0


def refused_start(folder: Path, settings: Mapping[str, str]) -> tuple[int, str]:
    """(exit code, what it says)."""
    folder.mkdir(exist_ok=True)
    broker = KafkadInCluster(folder, settings)
    done = subprocess.run(
        broker.command(), cwd=broker.working_folder, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def waits_and_says(folder: Path, settings: Mapping[str, str], expected: str) -> None:
    """The broker waits for ZooKeeper, says why in one line, and can be stopped meanwhile."""
    folder.mkdir()
    broker, said = KafkadInCluster(folder, {"zookeeper.connection.timeout.ms": "1000", **settings}), folder / "said"
    with said.open("wb") as output:
        process = subprocess.Popen(broker.command(), cwd=broker.working_folder, stdout=output, stderr=output)
        try:
            eventually(lambda: "waiting for ZooKeeper" in said.read_text(), what="it says that it waits")
        finally:
            process.terminate()
            code = process.wait(WITHIN_S)
    text = said.read_text()
    assert (code, expected in text, "Traceback" in text) == (0, True, False), text
