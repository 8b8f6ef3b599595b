//! An open loop: requests are due at fixed times, whether or not the server keeps up. Pure.
//!
//! A request that finds no connection free waits for one, but not for long: then it counts as unsent,
//! as a client would have given it up. Its latency begins when it was due.

use std::time::{Duration, Instant};

/// How long a due request waits for a connection.
pub const PATIENCE: Duration = Duration::from_millis(100);
const SECOND_NS: u64 = 1_000_000_000;

pub struct Schedule {
    start: Instant,
    rate: u64,
    /// Requests that were sent or given up.
    settled: u64,
    pub unsent: u64,
}

impl Schedule {
    pub fn new(start: Instant, rate: u64) -> Self {
        Self {
            start,
            rate,
            settled: 0,
            unsent: 0,
        }
    }

    /// When the next request is due, or was.
    pub fn next(&self) -> Instant {
        let whole = Duration::from_secs(self.settled / self.rate);
        let rest = self.settled % self.rate * SECOND_NS / self.rate;
        self.start + whole + Duration::from_nanos(rest)
    }

    /// The due time of a request to be sent now.
    pub fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next();
        (due <= now).then(|| {
            self.settled += 1;
            due
        })
    }

    /// Gives up what has waited for too long.
    pub fn give_up(&mut self, now: Instant) {
        while self.next() + PATIENCE < now {
            self.settled += 1;
            self.unsent += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Schedule, PATIENCE};
    use std::time::{Duration, Instant};

    #[test]
    fn requests_are_due_at_even_distances() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 4);
        let due: Vec<Duration> =
            std::iter::from_fn(|| schedule.take(start + Duration::from_secs(1)))
                .map(|due| due - start)
                .collect();
        assert_eq!(due, [0, 250, 500, 750, 1000].map(Duration::from_millis));
        assert_eq!(schedule.next() - start, Duration::from_millis(1250));
    }

    #[test]
    fn nothing_is_sent_before_it_is_due() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 1000);
        assert_eq!(schedule.take(start), Some(start));
        assert_eq!(schedule.take(start + Duration::from_micros(999)), None);
        assert!(schedule.take(start + Duration::from_millis(1)).is_some());
    }

    #[test]
    fn what_waits_too_long_is_given_up_and_counted() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 100);
        schedule.give_up(start + PATIENCE);
        assert_eq!(schedule.unsent, 0);
        schedule.give_up(start + PATIENCE + Duration::from_millis(25));
        assert_eq!(schedule.unsent, 3);
        assert_eq!(schedule.next() - start, Duration::from_millis(30));
    }

    #[test]
    fn a_rate_that_divides_no_second_does_not_drift() {
        let start = Instant::now();
        let mut schedule = Schedule::new(start, 7);
        schedule.settled = 7 * 3600;
        assert_eq!(schedule.next() - start, Duration::from_secs(3600));
    }
}
