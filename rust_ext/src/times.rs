//! How long things took: how many of each length, and all together. Threads add without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Times are filed by their length in bits beyond this: bucket n ends at 2^(16+n) nanoseconds.
const SHIFT: u32 = 16;
const PLACES: usize = 20;

/// See the top of the file.
#[derive(Default)]
pub struct Times {
    counts: [AtomicU64; PLACES + 1],
    total_ns: AtomicU64,
}

impl Times {
    /// One more.
    pub fn add(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bits = u64::BITS - (nanoseconds.saturating_sub(1) >> SHIFT).leading_zeros();
        let place = usize::try_from(bits).unwrap_or(PLACES).min(PLACES);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// How many there are in each bucket, and the nanoseconds of all of them.
    #[must_use]
    pub fn seen(&self) -> (Vec<u64>, u64) {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        (counts, self.total_ns.load(Ordering::Relaxed))
    }
}
