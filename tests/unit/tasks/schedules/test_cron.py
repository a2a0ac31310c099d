"""Cron expressions are five standard fields, and an error says which of them is wrong."""

import pytest

from tests.batches import batched
from weft.tasks.schedules.expressions import parse_cron
from weft.tasks.schedules.timezones import ScheduleError

WELL_FORMED = [
    # expression, plain form
    ("0 9 * * 1-5", "0 9 * * 1,2,3,4,5"),
    ("*/15 0-6/2 1,15 * *", "*/15 0,2,4,6 1,15 * *"),
    ("0 0 * JAN,feb,Mar Mon-FRI", "0 0 * 1,2,3 1,2,3,4,5"),
    ("  05   007\t* * *  ", "5 7 * * *"),
    ("0 0 * * 7", "0 0 * * 7"),
    ("0 0 * * 0-7/7", "0 0 * * 0,7"),
    ("*/60 */24 */31 */12 */8", "*/60 */24 */31 */12 */8"),
    ("*,5 * * * *", "*,5 * * * *"),
    # A range of one value has no room for a step; cronsim alone would read 5-59/15.
    ("5-5/15 * * * *", "5 * * * *"),
    ("*/20,5-5/15 * * * *", "*/20,5 * * * *"),
]


@pytest.mark.parametrize(("expression", "plain"), WELL_FORMED)
def test_a_standard_expression_is_reduced_to_numbers_and_stars(expression: str, plain: str) -> None:
    assert parse_cron(expression).text == plain


@pytest.mark.parametrize(
    ("expression", "is_fixed"),
    [
        ("30 2 * * *", True),
        ("0,30 1-5 * * *", True),
        ("0-59 0-23 * * *", True),
        ("* 2 * * *", False),
        ("*/30 2 * * *", False),
        ("30 * * * *", False),
        ("30 */2 * * *", False),
    ],
)
def test_fixed_are_the_expressions_whose_minute_and_hour_begin_without_a_star(
    expression: str, is_fixed: bool
) -> None:
    assert parse_cron(expression).is_fixed is is_fixed


MALFORMED = [
    # expression, part that is wrong, what the message says of it
    ("", "fields", "5 cron fields (minute, hour, day of month, month, day of week), not 1"),
    ("* * * *", "fields", "not 4"),
    ("* * * * * *", "fields", "no field for seconds"),
    ("0 0 0 1 1 ? 2030", "fields", "not 7"),
    ("60 * * * *", "minute", "0-59"),
    ("-1 * * * *", "minute", "0-59"),
    ("1.5 * * * *", "minute", "0-59"),
    ("+5 * * * *", "minute", "0-59"),
    ("1_0 * * * *", "minute", "0-59"),
    ("\u0665 * * * *", "minute", "0-59"),
    ("\u00b2 * * * *", "minute", "0-59"),
    ("mon * * * *", "minute", "0-59"),
    ("** * * * *", "minute", "0-59"),
    ("*-5 * * * *", "minute", "0-59"),
    ("1,,2 * * * *", "minute", "on each side of a comma"),
    ("1, * * * *", "minute", "on each side of a comma"),
    ("1- * * * *", "minute", "0-59"),
    ("1-2-3 * * * *", "minute", "0-59"),
    ("30-10 * * * *", "minute", "begins with its lower end"),
    ("*/0 * * * *", "minute", "a step of 1-60"),
    ("*/ * * * *", "minute", "a step of 1-60"),
    ("*/-1 * * * *", "minute", "a step of 1-60"),
    ("*/5/5 * * * *", "minute", "a step of 1-60"),
    ("*/90 * * * *", "minute", "a step of 1-60"),
    ("*/\u0665 * * * *", "minute", "a step of 1-60"),
    ("5/15 * * * *", "minute", "such as 5-59/15"),
    ("* 24 * * *", "hour", "0-23"),
    ("* 9-24 * * *", "hour", "0-23"),
    ("* 9\u00a0 * * *", "hour", "0-23"),
    ("0 0 0 * *", "day of month", "1-31"),
    ("0 0 32 * *", "day of month", "1-31"),
    ("0 0 L * *", "day of month", "list the days"),
    ("0 0 LW * *", "day of month", "list the days"),
    ("0 0 L-3 * *", "day of month", "list the days"),
    ("0 0 15W * *", "day of month", "list the days"),
    ("0 0 ? * 1", "day of month", "or write *"),
    ("0 0 * 0 *", "month", "1-12 or jan-dec"),
    ("0 0 * 13 *", "month", "1-12 or jan-dec"),
    ("0 0 * january *", "month", "1-12 or jan-dec"),
    ("0 0 * nov-feb *", "month", "begins with its lower end"),
    ("0 0 * * 8", "day of week", "0-7 or sun-sat"),
    ("0 0 * * funday", "day of week", "0-7 or sun-sat"),
    ("0 0 * * \u017fun", "day of week", "0-7 or sun-sat"),
    ("0 0 * * sat-sun", "day of week", "Sunday is 7 at the end of a range"),
    ("0 0 * * mon#2", "day of week", "list the days"),
    ("0 0 * * 5L", "day of week", "list the days"),
    ("0 0 * * friL", "day of week", "list the days"),
    ("0 0 * * *\n", "day of week", "0-7"),
    ("@daily", "macro", "write '0 0 * * *' for @daily"),
    (" @Hourly ", "macro", "write '0 * * * *' for @hourly"),
    ("@reboot", "macro", "write the times as five fields"),
]


@batched(("expression", "part", "message"), MALFORMED)
def test_a_malformed_expression_is_refused_with_the_name_of_the_wrong_part(
    expression: str, part: str, message: str
) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_cron(expression)

    assert (caught.value.field, caught.value.part) == ("schedule_expression", part)
    assert str(caught.value).startswith(f"schedule_expression, {part}: expected ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    ["0 0 30 2 *", "0 0 30,31 2 *", "0 0 31 2,4,6,9,11 *", "0 0 31 feb *", "0 0 30 2 */2", "0 0 30 2 *,1"],
)
def test_a_date_that_no_year_has_is_refused(expression: str) -> None:
    with pytest.raises(ScheduleError, match=r"day of month: expected a day that exists, 1-(29|30)"):
        parse_cron(expression)


@pytest.mark.parametrize("expression", ["0 0 30 2 mon", "0 0 29 2 *", "0 0 31 1,2 *", "0 0 */30 2 *"])
def test_a_date_that_some_year_has_is_accepted(expression: str) -> None:
    assert parse_cron(expression)
