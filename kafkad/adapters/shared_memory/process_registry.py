"""The processes of this broker, with their states and incarnations, and the incarnations of others that each has seen.

One row of shared words per process, with one writer per word: the supervisor writes incarnation, pid and the states
starting and dead; the controller writes the requests that it handles; the process itself writes the rest of its row.
Processes never wait here: they read the registry again after notifications.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kafkad.adapters.shared_memory.shared_region import SharedRegion

PROCESS_SLOTS = 64
FIRST_INCARNATION = 1
GRACE_CHECK_MS = 5
"""How often an owner checks for the end of a grace period."""
_ROW = 128
_INCARNATION, _PID, _STATE, _APPLIED, _PASS, _ASLEEP, _DONE, _TOTAL, _HANDLED = range(9)
HANDLING_THREADS = 2
"""The threads of the controller process that handle requests: the loop and the thread of the store."""
_SEEN = 64
_BROKER = PROCESS_SLOTS * _ROW
_METADATA_VERSION, _BROKER_STATE = 0, 8
REGISTRY_BYTES = (_BROKER + _ROW) * 8


@dataclass(frozen=True, slots=True, order=True)
class ProcessKey:
    """A process of the broker, independent of its incarnation: role and index, like `network-0`."""

    role: str
    index: int

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


CONTROLLER = ProcessKey("controller", 0)
"""The only process of its role."""


class ProcessState(IntEnum):
    """The state of one incarnation of a process."""

    NONE = 0
    STARTING = 1
    READY = 2
    STOPPING = 3
    DEAD = 4


class ProcessEntry(NamedTuple):
    """The main fields of one row."""

    key: ProcessKey
    incarnation: int
    pid: int
    state: ProcessState


class GraceMark(NamedTuple):
    """The loop pass of a process at the begin of a grace period."""

    slot: int
    incarnation: int
    passed: int


class ProcessRegistry:
    """The rows of `keys`, in that order, in a region of `REGISTRY_BYTES`."""

    def __init__(self, region: SharedRegion, keys: Sequence[ProcessKey]) -> None:
        if len(keys) > PROCESS_SLOTS:
            raise ValueError(f"a broker has at most {PROCESS_SLOTS} processes, not {len(keys)}")
        self.keys = tuple(keys)
        self._slots = {key: slot for slot, key in enumerate(self.keys)}
        self._words = region.view[:REGISTRY_BYTES].cast("Q")

    def slot(self, key: ProcessKey) -> int:
        return self._slots[key]

    def role(self, role: str) -> tuple[ProcessKey, ...]:
        """The processes of one role, by index."""
        return tuple(key for key in self.keys if key.role == role)

    def incarnation(self, key: ProcessKey) -> int:
        """The number of the current incarnation; 0 before the first one."""
        return self._words[self._slots[key] * _ROW + _INCARNATION]

    def pid(self, key: ProcessKey) -> int:
        return self._words[self._slots[key] * _ROW + _PID]

    def state(self, key: ProcessKey) -> ProcessState:
        return ProcessState(self._words[self._slots[key] * _ROW + _STATE])

    def entries(self) -> tuple[ProcessEntry, ...]:
        return tuple(ProcessEntry(key, self.incarnation(key), self.pid(key), self.state(key)) for key in self.keys)

    def begin_incarnation(self, key: ProcessKey, state: ProcessState = ProcessState.STARTING) -> int:
        """Begin the next incarnation, with DEAD if it starts later.

        Only for the supervisor, after the previous incarnation was reaped.
        """
        row = self._slots[key] * _ROW
        # State before incarnation: a reader in between must not take a dead incarnation for a starting one.
        self._words[row + _STATE] = state
        self._words[row + _PID] = 0
        # A new incarnation has seen no peer, and is idle until its first loop pass.
        self._words[row + _APPLIED] = 0
        self._words[row + _PASS] = 0
        self._words[row + _ASLEEP] = 0
        self._words[row + _DONE] = self._words[row + _TOTAL] = 0
        for thread in range(HANDLING_THREADS):
            self._words[row + _HANDLED + thread] = 0
        for peer in range(PROCESS_SLOTS):
            self._words[row + _SEEN + peer] = 0
        self._words[row + _INCARNATION] += 1
        return self._words[row + _INCARNATION]

    def set_pid(self, key: ProcessKey, pid: int) -> None:
        self._words[self._slots[key] * _ROW + _PID] = pid

    def set_state(self, key: ProcessKey, state: ProcessState) -> None:
        self._words[self._slots[key] * _ROW + _STATE] = state

    def is_live(self, key: ProcessKey) -> bool:
        """Whether the process is started and not reaped: it may use shared memory and files."""
        return self.state(key) in (ProcessState.STARTING, ProcessState.READY, ProcessState.STOPPING)

    def mark_seen(self, me: ProcessKey, peer: ProcessKey, incarnation: int) -> None:
        """Process `me` has switched to this incarnation of `peer`, and uses nothing of the previous one."""
        self._words[self._slots[me] * _ROW + _SEEN + self._slots[peer]] = incarnation

    def seen(self, key: ProcessKey, peer: ProcessKey) -> int:
        """The incarnation of `peer` to which process `key` has switched."""
        return self._words[self._slots[key] * _ROW + _SEEN + self._slots[peer]]

    def is_seen_by_all(self, me: ProcessKey, role: str) -> bool:
        """Whether every live process of `role` has switched to the current incarnation and uses no earlier one."""
        incarnation = self.incarnation(me)
        return all(self.seen(key, me) >= incarnation for key in self.role(role) if self.is_live(key))

    def set_progress(self, key: ProcessKey, done: int, total: int) -> None:
        """Set the progress of the start or stop of `key`, for status messages."""
        row = self._slots[key] * _ROW
        self._words[row + _TOTAL] = total
        self._words[row + _DONE] = done

    def progress(self, key: ProcessKey) -> tuple[int, int]:
        row = self._slots[key] * _ROW
        return self._words[row + _DONE], self._words[row + _TOTAL]

    def set_handled(self, sender: ProcessKey, thread: int, token: int) -> None:
        """Set the request of `sender` that `thread` of the controller handles; 0 for none. Only for the controller."""
        self._words[self._slots[sender] * _ROW + _HANDLED + thread] = token

    def handled(self, sender: ProcessKey) -> tuple[int, ...]:
        """The requests of `sender` that the controller handles, or handled when it died.

        The next incarnation of the controller overwrites them when it receives a request of `sender`.
        """
        row = self._slots[sender] * _ROW + _HANDLED
        return tuple(token for token in self._words[row : row + HANDLING_THREADS] if token)

    def sleep_word(self, key: ProcessKey) -> tuple[memoryview, int]:
        """The word that marks `key` as sleeping, for its doorbell."""
        return self._words, self._slots[key] * _ROW + _ASLEEP

    @property
    def metadata_version(self) -> int:
        """The newest metadata version that the controller has published."""
        return self._words[_BROKER + _METADATA_VERSION]

    @metadata_version.setter
    def metadata_version(self, version: int) -> None:
        self._words[_BROKER + _METADATA_VERSION] = version

    @property
    def broker_state(self) -> int:
        return self._words[_BROKER + _BROKER_STATE]

    @broker_state.setter
    def broker_state(self, state: int) -> None:
        self._words[_BROKER + _BROKER_STATE] = state

    def applied_version(self, key: ProcessKey) -> int:
        return self._words[self._slots[key] * _ROW + _APPLIED]

    def set_applied_version(self, key: ProcessKey, version: int) -> None:
        self._words[self._slots[key] * _ROW + _APPLIED] = version

    def passed_generation(self, key: ProcessKey) -> int:
        """The pass counter for grace periods: odd while the process is in a loop pass, even while it is idle."""
        return self._words[self._slots[key] * _ROW + _PASS]

    def enter_pass(self, slot: int) -> None:
        """Begin a pass, in which the process may read slots and use files. `slot` is the process slot."""
        self._words[slot * _ROW + _PASS] |= 1

    def leave_pass(self, slot: int) -> None:
        """End a pass: the process uses no earlier reads. Not called while a pending response uses a file."""
        index = slot * _ROW + _PASS
        self._words[index] = (self._words[index] | 1) + 1

    def grace_marks(self, role: str = "network") -> tuple[GraceMark, ...]:
        """The marks of the live processes of `role`; called after the new generation was published."""
        return tuple(
            GraceMark(self._slots[key], self.incarnation(key), self.passed_generation(key))
            for key in self.role(role)
            if self.is_live(key)
        )

    def has_grace_ended(self, marks: Iterable[GraceMark]) -> bool:
        """Whether every marked process has finished its pass, was idle, or has ended.

        Called after `grace_marks`. An idle process is checked twice: it may have read the old generation before its
        store of the pass counter became visible here, delayed by the store buffer.
        """
        return all(self._has_passed(mark) for mark in marks)

    def _has_passed(self, mark: GraceMark) -> bool:
        row = mark.slot * _ROW
        if self._words[row + _INCARNATION] != mark.incarnation:
            return True
        if self._words[row + _STATE] == ProcessState.DEAD:
            return True
        passed = self._words[row + _PASS]
        return passed > (mark.passed | 1) or (passed == mark.passed and not passed & 1)
