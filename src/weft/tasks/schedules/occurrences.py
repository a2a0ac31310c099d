"""Due times of a cron expression in a time zone.

`cronsim` computes wall times, and this module converts them to UTC. cronsim's own handling of zones is not
sufficient: within a repeated hour it returns a time in the past, and where clocks are set back by half an
hour it loses times.

When clocks change, this follows Debian cron. Fixed times are due once: those of a skipped hour right after
the jump, those of a repeated hour the first time. Expressions whose minute or hour begins with `*` follow
the clocks: nothing is due in a skipped hour, and everything is due twice in a repeated hour.
"""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from weft.tasks.schedules.expressions import Cron
from weft.tasks.schedules.timezones import (
    earliest_wall,
    latest_wall,
    moment_after_jump,
    moments_of,
    skipped_seconds,
)

_LONGEST_DST_JUMP_SECONDS = 3 * 3600
"""Debian cron treats a longer jump as a corrected clock: skipped times are not made up for.

Such a jump occurs when a zone skips a day, such as 30 December 2011 in Samoa."""


def first_due_after(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the first due time after `after`, in UTC. Raise OverflowError if the calendar ends before.

    Wall times are in order, and so are their first occurrences. Only a second occurrence can be later than
    the first occurrence of the next wall time, so the loop keeps it until it can compare the two.
    """
    second_occurrence: datetime | None = None
    for wall in _wall_times(cron, earliest_wall(after, zone), reverse=False):
        moments = _due_moments(cron, wall, zone)
        if moments and moments[0] > after:
            return min(moments[0], second_occurrence or moments[0])
        if second_occurrence is None and moments and moments[-1] > after:
            second_occurrence = moments[-1]
    return second_occurrence


def last_due_before(cron: Cron, zone: ZoneInfo, before: datetime) -> datetime | None:
    """Return the last due time before `before`, in UTC. Raise OverflowError if the calendar starts later."""
    first_occurrence: datetime | None = None
    for wall in _wall_times(cron, latest_wall(before, zone), reverse=True):
        moments = _due_moments(cron, wall, zone)
        if moments and moments[-1] < before:
            return max(moments[-1], first_occurrence or moments[-1])
        if first_occurrence is None and moments and moments[0] < before:
            first_occurrence = moments[0]
    return first_occurrence


def _wall_times(cron: Cron, start: datetime, *, reverse: bool) -> Iterator[datetime]:
    """Yield the matching wall times after `start`, or before it if `reverse`.

    Raise OverflowError at the end of the calendar. cronsim stops after 50 years without a match; the
    longest gap of a possible expression is 40 years (29 February on one weekday, with 2100 in between).
    """
    return CronSim(cron.text, start, reverse=reverse)


def _due_moments(cron: Cron, wall: datetime, zone: ZoneInfo) -> tuple[datetime, ...]:
    moments = moments_of(wall, zone)
    if not cron.is_fixed:
        return moments
    if moments:
        return moments[:1]
    if skipped_seconds(wall, zone) > _LONGEST_DST_JUMP_SECONDS:
        return ()
    return (moment_after_jump(wall, zone),)
