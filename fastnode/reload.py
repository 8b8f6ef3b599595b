"""SIGHUP: what a running node takes over from its configuration without a restart. A leaf, shell.

The log level, the limits of declared queues and queues that are new in the file; and whatever was
hung on (`also`), such as the credentials file. Everything else that has changed is named in the
log. A file that cannot be used changes nothing.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from msgspec.structs import replace

from fastnode.errors import FastnodeError, UsageError
from fastnode.option_values import Address
from fastnode.settings import OPTIONS, Settings, load_settings

THROTTLE_PREFIX: Final = "Throttle"
_HOT: Final = frozenset({"log_level"})
log: Final = logging.getLogger("fastnode.reload")

# Creates queues that the file has and had not, and sets changed limits of others.
Adopt = Callable[[Settings, Mapping[str, Mapping[str, str]]], Coroutine[Any, Any, None]]


class Reload:
    """`settings` are those in force. `adopt` is for one process of a node; the others leave it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.adopt: Adopt | None = None
        self._others: list[Callable[[], object]] = []
        self._adopting: asyncio.Task[None] | None = None

    def also(self, other: Callable[[], object]) -> None:
        self._others.append(other)

    def listen(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.reload)

    def reload(self) -> None:
        for other in self._others:
            other()
        found = read_again(self.settings)
        if found is None or self.adopt is None:
            return
        if self._adopting is None or self._adopting.done():
            self._adopting = asyncio.get_running_loop().create_task(self._adopt(self.adopt, found))
        else:
            log.error("the last reload is still under way: send SIGHUP again")

    async def _adopt(self, adopt: Adopt, found: Settings) -> None:
        """What could not be done is tried again by the next signal, since nothing is taken over."""
        try:
            await adopt(found, changed_throttles(self.settings.queues, found.queues))
        except FastnodeError as error:
            log.error("declared queues are not all as in the file: %s: send SIGHUP again", error)
        else:
            self.settings = taken_over(self.settings, found)


def read_again(before: Settings) -> Settings | None:
    """The settings as they are now, of which this process has the log level; None, and said so, if
    they cannot be used.
    """
    try:
        found = load_settings(before.flags, os.environ, config=before.config_file or None)
    except UsageError as error:
        log.error("the old settings stay in force: %s", error)
        return None
    logging.getLogger().setLevel(found.log_level.upper())
    log.info("settings read", extra={"log_level": found.log_level})
    if waiting := changed_options(before, found):
        log.warning("a change waits for a restart", extra={"keys": ",".join(waiting)})
    return found


def taken_over(before: Settings, found: Settings) -> Settings:
    """What is in force once `found` is read."""
    return replace(
        before, log_level=found.log_level, queues=found.queues, queue_tags=found.queue_tags
    )


def changed_options(before: Settings, found: Settings) -> list[str]:
    """Keys that only a restart takes over."""
    names = (option.field for option in OPTIONS if option.field not in _HOT)
    return [name for name in names if not _is_same(getattr(before, name), getattr(found, name))]


def _is_same(before: object, found: object) -> bool:
    """What was left to the node (any port, as many workers as cores) it has chosen already."""
    if isinstance(before, Address) and isinstance(found, Address) and found.port == 0:
        return before.host == found.host
    return before == found or found == 0


def changed_throttles(
    before: Mapping[str, Mapping[str, str]], found: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Queue → limits that are to be set. A limit that is gone from the file is none."""
    changed: dict[str, dict[str, str]] = {}
    for name in before.keys() & found.keys():
        old, new = throttles_of(before[name]), throttles_of(found[name])
        if old != new:
            changed[name] = dict.fromkeys(old, "0") | new
    return changed


def throttles_of(attributes: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in attributes.items() if key.startswith(THROTTLE_PREFIX)}
