"""One writer at a time where nothing can be locked: an object that its writer renews, and that others watch.

The lease with the highest number is the writer's. A job that finds one watches it: where it is renewed, the job is
refused; where it stays as it is for `WATCH` seconds its writer is dead, and the job puts the next number, which only
one can, since it is put where none is. No clocks are compared. A writer that was not heard of for so long, and lost its
lease, finds out before it publishes.
"""

import json
import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ask_dask.errors import StoreError
from ask_dask.store.places import LEASE, Url, contents, remove

RENEW, WATCH = 3.0, 15.0
"""Seconds between two renewals, and without one after which a writer is taken for dead."""

log = logging.getLogger("ask_dask")


@dataclass
class Lease:
    """Lease number `number` on the writing of a store."""

    store: Url
    number: int
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    renewed: int = 0

    @property
    def place(self) -> Url:
        """Its object."""
        return self.store / f"lease-{self.number}"

    def put(self, new: bool = False) -> None:
        """Write or renew it."""
        facts = {"id": self.id, "host": platform.node(), "process": os.getpid(), "renewed": self.renewed,
                 "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}  # fmt: skip
        self.place.write_bytes(json.dumps(facts).encode(), new)

    def is_mine(self) -> bool:
        """Whether it is there, and this one."""
        found = _read(self.place)
        return bool(found) and self.id.encode() in (found or b"")


@contextmanager
def writer(store: Url) -> Iterator[Callable[[], None]]:
    """Be the one that writes a store; what is yielded raises StoreError when that is no longer so.

    Raises
    ------
    StoreError
        Another job writes it.
    """
    lease, ended = _acquire(store), threading.Event()
    renewing = threading.Thread(target=_renew, args=(lease, ended), daemon=True)
    renewing.start()
    try:
        yield lambda: _require(lease)
    finally:
        ended.set()
        renewing.join(RENEW)  # not for as long as storage that is lost would be tried
        with suppress(StoreError):  # the next job then watches it for a while
            if lease.is_mine():
                remove(lease.place)


def _acquire(store: Url) -> Lease:
    while found := _numbers(store):
        place = store / f"lease-{found[-1]}"
        log.warning("%s is there from a job that may be dead: watching it for up to %g s.", place, WATCH)
        before, now = _watched(place)
        if now and now != before:
            raise _refused(store, now)
        if now:
            break
    lease = Lease(store, found[-1] + 1 if found else 1)
    try:
        lease.put(new=True)
    except OSError as error:
        held = _read(lease.place)
        if held is None:
            raise
        if not lease.is_mine():  # else it was put, and the answer was lost
            raise _refused(store, held) from error
    for number in found:
        remove(store / f"lease-{number}")
    return lease


def holder(store: Url) -> dict[str, Any] | None:
    """The job that holds a lease: {"alive", "last_sign"}, None where none does.

    That it is alive is known when it renews its lease, that it is not after `WATCH` seconds. `last_sign` is when it
    renewed it last by its own clock, which is told and compared with none.
    """
    found = _numbers(store)
    before, now = _watched(store / f"lease-{found[-1]}") if found else (None, None)
    return {"alive": now != before, "last_sign": _facts(now).get("time")} if now else None


def _watched(place: Url) -> tuple[bytes | None, bytes | None]:
    """A lease as it is found, and as it is when that changes or, when it does not, after `WATCH` seconds."""
    before, until = _read(place), time.monotonic() + WATCH
    now = before
    while now and now == before and time.monotonic() < until:
        time.sleep(RENEW / 3)
        now = _read(place)
    return before, now


def _renew(lease: Lease, ended: threading.Event) -> None:
    while not ended.wait(RENEW):
        with suppress(Exception):  # the next time, or what publishes, sees to it
            if lease.is_mine():
                lease.renewed += 1
                lease.put()


def _require(lease: Lease) -> None:
    numbers = _numbers(lease.store)
    if not numbers or numbers[-1] != lease.number or not lease.is_mine():
        raise StoreError(
            f"{lease.store} was taken over by another job, since this one was not heard of for {WATCH:g} seconds: "
            "nothing was published; wait for the other."
        )


def _numbers(store: Url) -> list[int]:
    return sorted(int(found[1]) for name in contents(store) if (found := LEASE.fullmatch(name)))


def _read(place: Url) -> bytes | None:
    try:
        return place.read_bytes()
    except FileNotFoundError:
        return None


def _facts(lease: bytes) -> dict[str, Any]:
    with suppress(ValueError):
        if isinstance(found := json.loads(lease), dict):
            return {name: str(value)[:60] for name, value in found.items()}
    return {}


def _refused(store: Url, lease: bytes) -> StoreError:
    facts = _facts(lease)
    by = f" ({facts['host']}, process {facts['process']})" if {"host", "process"} <= set(facts) else ""
    return StoreError(f"{store} is being written by another job{by}: wait for it, or choose another place.")
