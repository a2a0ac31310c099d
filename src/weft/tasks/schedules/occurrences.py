"""The moments at which a cron expression is due in a time zone.

`cronsim` works out the wall times and this module the moments at which the clocks show them. cronsim's own
handling of zones is not enough: asked within a repeated hour it answers with a time that is past already,
and where clocks go back by half an hour it loses times.

On the days on which clocks change this follows Debian cron. Fixed times are due once: those of a skipped
hour right after the jump, those of a repeated hour at their first showing. Expressions with `*` as
minute or hour follow the clocks: nothing is due in a skipped hour, and a repeated hour counts twice.
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
"""Debian cron takes a longer jump for a corrected clock: what it skips is not made up for.

Such a jump is a day that a place never had: 30 December 2011 in Samoa."""


def first_due_after(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime | None:
    """The first due moment later than `after`, in UTC; an `OverflowError` when the calendar ends first.

    Wall times come in order, and so do their first moments. Only a second showing can be later than
    the next wall time's first, so it is kept until that is known.
    """
    second_showing: datetime | None = None
    for wall in _wall_times(cron, earliest_wall(after, zone), reverse=False):
        moments = _due_moments(cron, wall, zone)
        if moments and moments[0] > after:
            return min(moments[0], second_showing or moments[0])
        if second_showing is None and moments and moments[-1] > after:
            second_showing = moments[-1]
    return second_showing


def last_due_before(cron: Cron, zone: ZoneInfo, before: datetime) -> datetime | None:
    """The last due moment earlier than `before`, in UTC; an `OverflowError` if the calendar begins later."""
    first_showing: datetime | None = None
    for wall in _wall_times(cron, latest_wall(before, zone), reverse=True):
        moments = _due_moments(cron, wall, zone)
        if moments and moments[-1] < before:
            return max(moments[-1], first_showing or moments[-1])
        if first_showing is None and moments and moments[0] < before:
            first_showing = moments[0]
    return first_showing


def _wall_times(cron: Cron, start: datetime, *, reverse: bool) -> Iterator[datetime]:
    """The matching wall times from `start` (without it); an `OverflowError` ends them with the calendar.

    cronsim gives up after 50 years without a match; the longest wait of a possible expression is 40
    (29 February on one weekday, with 2100 in between).
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
