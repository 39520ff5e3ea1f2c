//! Dates for templates that ask for the day.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 24 * 60 * 60;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The first of January 1970 was a Thursday.
const WEEKDAYS: [&str; 7] =
    ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// `time` in UTC, by the directives of C's `strftime` in `pattern`.
pub(super) fn format(time: SystemTime, pattern: &str) -> Result<String, String> {
    let since =
        time.duration_since(UNIX_EPOCH).map_err(|_| "the clock is before 1970".to_owned())?;
    let (days, seconds) = (since.as_secs() / DAY_SECONDS, since.as_secs() % DAY_SECONDS);
    let (year, month, day, day_of_year) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let (month_name, weekday) = (MONTHS[month], WEEKDAYS[(days % 7) as usize]);
    let mut text = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        text.push_str(&match chars.next() {
            Some('d') => format!("{day:02}"),
            Some('e') => format!("{day:2}"),
            Some('m') => format!("{:02}", month + 1),
            Some('b') => month_name[..3].to_owned(),
            Some('B') => month_name.to_owned(),
            Some('y') => format!("{:02}", year % 100),
            Some('Y') => format!("{year}"),
            Some('j') => format!("{day_of_year:03}"),
            Some('a') => weekday[..3].to_owned(),
            Some('A') => weekday.to_owned(),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{:02}", (hour + 11) % 12 + 1),
            Some('p') => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{second:02}"),
            Some('F') => format!("{year}-{:02}-{day:02}", month + 1),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('%') => "%".to_owned(),
            Some(other) => return Err(format!("`strftime_now` does not know `%{other}`")),
            None => return Err("`strftime_now` has a `%` at its end".to_owned()),
        });
    }
    Ok(text)
}

/// Year, month from 0, day from 1 and day of the year from 1, of a day counted from 1970.
fn date(days: u64) -> (u64, usize, u64, u64) {
    /// Days of the 400 years after which the calendar repeats; they begin in 1970 as in any year.
    const CYCLE: u64 = 146_097;
    let mut year = 1970 + days / CYCLE * 400;
    let mut left = days % CYCLE;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let length = |year| if leap(year) { 366 } else { 365 };
    while left >= length(year) {
        left -= length(year);
        year += 1;
    }
    let day_of_year = left + 1;
    let february = if leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while month < 11 && left >= months[month] {
        left -= months[month];
        month += 1;
    }
    (year, month, left + 1, day_of_year)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "Thu 01 Jan 1970 001 00:00:00"),
            (951_782_399, "Mon 28 Feb 2000 059 23:59:59"),
            (951_782_400, "Tue 29 Feb 2000 060 00:00:00"),
            (1_735_689_599, "Tue 31 Dec 2024 366 23:59:59"),
            (4_107_542_400, "Mon 01 Mar 2100 060 00:00:00"),
            (13_574_563_200, "Tue 29 Feb 2400 060 00:00:00"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(format(time, "%a %d %b %Y %j %T").unwrap(), text);
        }
    }

    #[test]
    fn directives_that_are_not_known_are_errors() {
        assert!(format(UNIX_EPOCH, "%Q").unwrap_err().contains("%Q"));
        assert!(format(UNIX_EPOCH, "50%").unwrap_err().contains("end"));
        assert_eq!(format(UNIX_EPOCH, "100%% %I%p").unwrap(), "100% 12AM");
    }
}
