"""Quotas in bytes per second for each client id, from the configuration (Kafka: ClientQuotaManager).

`kafkad.quota.{producer,consumer}.byte.rate.default` (or Kafka's old `quota.{producer,consumer}.default`) is the default
of each client id, `kafkad.quota.client.<id>.{producer,consumer}_byte_rate` the quota of one. -1 is no limit.
"""

from collections.abc import Mapping, Sequence

from kafkad.api import ANONYMOUS, ClientIdentity, ClientQuotas, QuotaKey, QuotaManager, hookimpl

_CLIENT = "kafkad.quota.client."
_OLD_UNLIMITED = 2**63 - 1


class ClientIdQuotas:
    """The quotas of both directions."""

    name = "client-id"

    def __init__(self) -> None:
        self.is_unlimited = True
        self._produced = ClientQuotas()
        self._fetched = ClientQuotas()

    def configure(self, settings: Mapping[str, str]) -> None:
        windows = (
            int(settings.get("quota.window.num", "11")),
            int(settings.get("quota.window.size.seconds", "1")) * 1000,
        )
        self._produced = _configured(self._produced, settings, "producer", windows)
        self._fetched = _configured(self._fetched, settings, "consumer", windows)
        self.is_unlimited = self._produced.is_unlimited and self._fetched.is_unlimited

    def record_produce(self, client: ClientIdentity, size: int, now_ms: int) -> int:
        return self._produced.record(_key(client), size, now_ms)

    def record_fetch(self, client: ClientIdentity, size: int, now_ms: int) -> int:
        return self._fetched.record(_key(client), size, now_ms)

    def unrecord_fetch(self, client: ClientIdentity, size: int, now_ms: int) -> None:
        self._fetched.unrecord(_key(client), size, now_ms)

    def max_fetch_bytes(self, client: ClientIdentity) -> int | None:
        return self._fetched.max_in_window(_key(client))

    def drain_local(self) -> list[tuple[ClientIdentity, int, int]]:
        produced, fetched = self._produced.drain_local(), self._fetched.drain_local()
        # dict.fromkeys instead of a set makes the order deterministic.
        keys = dict.fromkeys([*produced, *fetched])
        return [(_any_client(key), produced.get(key, 0), fetched.get(key, 0)) for key in keys]

    def record_remote(self, client: ClientIdentity, produced: int, fetched: int, now_ms: int) -> None:
        self._produced.record_remote(_key(client), produced, now_ms)
        self._fetched.record_remote(_key(client), fetched, now_ms)


def _key(client: ClientIdentity) -> QuotaKey:
    return None, client.client_id


def _any_client(key: QuotaKey) -> ClientIdentity:
    """A client with this key; all clients with the same key share a quota."""
    return ClientIdentity(ANONYMOUS, key[1])


def _configured(
    quotas: ClientQuotas, settings: Mapping[str, str], direction: str, windows: tuple[int, int]
) -> ClientQuotas:
    """`quotas` with the limits of `settings`; new quotas if the windows have changed."""
    if windows != quotas.windows:
        quotas = ClientQuotas(num_samples=windows[0], window_ms=windows[1])
    old = int(settings.get(f"quota.{direction}.default", str(_OLD_UNLIMITED)))
    new = int(settings.get(f"kafkad.quota.{direction}.byte.rate.default", "-1"))
    default = new if new >= 0 else old
    quotas.set_limits(None if default == _OLD_UNLIMITED else default, _limits(settings, direction))
    return quotas


def _limits(settings: Mapping[str, str], direction: str) -> dict[QuotaKey, float | None]:
    suffix = f".{direction}_byte_rate"
    limits: dict[QuotaKey, float | None] = {}
    for name, text in settings.items():
        if name.startswith(_CLIENT) and name.endswith(suffix):
            client_id = name.removeprefix(_CLIENT).removesuffix(suffix)
            limit = int(text)
            limits[None, client_id] = limit if limit >= 0 else None
    return limits


@hookimpl(trylast=True)
def kafkad_register_quota_managers() -> Sequence[QuotaManager]:
    return [ClientIdQuotas()]
