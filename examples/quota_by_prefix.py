"""A quota manager that gives all clients of one team one limit: client ids `batch-1`, `batch-2` share `batch`.

`kafkad.quota.manager=client-id-prefix`, then `kafkad.plugin.quota.prefix.<prefix>=<bytes per second>` for each
prefix (what is before the first dash). Produce and Fetch are limited apart, other clients not at all.
"""

from collections.abc import Mapping, Sequence

from kafkad.api import ANONYMOUS, ClientIdentity, ClientQuotas, QuotaKey, QuotaManager, hookimpl

kafkad_requires = 1
OPTION = "kafkad.plugin.quota.prefix."


class PrefixQuotas:
    name = "client-id-prefix"

    def __init__(self) -> None:
        self.is_unlimited = True
        self._produced = ClientQuotas()
        self._fetched = ClientQuotas()

    def configure(self, settings: Mapping[str, str]) -> None:
        limits: dict[QuotaKey, float | None] = {
            (None, name.removeprefix(OPTION)): float(text) for name, text in settings.items() if name.startswith(OPTION)
        }
        self._produced.set_limits(None, limits)
        self._fetched.set_limits(None, limits)
        self.is_unlimited = not limits

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
        keys = dict.fromkeys([*produced, *fetched])
        return [(ClientIdentity(ANONYMOUS, key[1]), produced.get(key, 0), fetched.get(key, 0)) for key in keys]

    def record_remote(self, client: ClientIdentity, produced: int, fetched: int, now_ms: int) -> None:
        self._produced.record_remote(_key(client), produced, now_ms)
        self._fetched.record_remote(_key(client), fetched, now_ms)


def _key(client: ClientIdentity) -> QuotaKey:
    return None, client.client_id.partition("-")[0]


@hookimpl
def kafkad_register_quota_managers() -> Sequence[QuotaManager]:
    return [PrefixQuotas()]
