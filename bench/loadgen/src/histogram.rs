//! Latencies in buckets of constant relative width, so that one array serves microseconds and seconds.

const SUB_BITS: u32 = 6;
const SUB_COUNT: usize = 1 << SUB_BITS;
const BUCKETS: usize = SUB_COUNT * (64 - SUB_BITS as usize + 1);

/// Counts of nanosecond values; a percentile is at most 1/64 above the true value.
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    largest: u64,
}

impl Histogram {
    pub fn new() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            largest: 0,
        }
    }

    pub fn add(&mut self, nanoseconds: u64) {
        self.buckets[bucket(nanoseconds)] += 1;
        self.count += 1;
        self.largest = self.largest.max(nanoseconds);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// The smallest bucket bound that `per_mille` of the values do not exceed; 0 without values.
    pub fn percentile(&self, per_mille: u64) -> u64 {
        let wanted = (self.count * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_bound(index).min(self.largest);
            }
        }
        0
    }
}

/// Values below 64 have a bucket each; above, the six bits after the leading one choose.
fn bucket(value: u64) -> usize {
    let value_small = usize::try_from(value).unwrap_or(usize::MAX);
    if value_small < SUB_COUNT {
        return value_small;
    }
    let shift = value.ilog2() - SUB_BITS;
    (shift as usize + 1) * SUB_COUNT + (value_small >> shift) - SUB_COUNT
}

fn upper_bound(index: usize) -> u64 {
    if index < SUB_COUNT {
        return index as u64;
    }
    let shift = index / SUB_COUNT - 1;
    let start = (index % SUB_COUNT + SUB_COUNT) as u64;
    ((start + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::{bucket, upper_bound, Histogram};

    #[test]
    fn every_value_lies_within_a_64th_below_its_bucket_bound() {
        for power in 0..63 {
            for value in [1u64 << power, (1u64 << power) + 1, (1u64 << power) * 2 - 1] {
                let bound = upper_bound(bucket(value));
                assert!(
                    bound >= value && bound - value <= value / 64,
                    "{value} {bound}"
                );
            }
        }
        assert_eq!(upper_bound(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn percentiles_of_a_ramp_are_its_ranks() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile(500), 0);
        (1..=1000).for_each(|value| histogram.add(value * 1000));
        let p50 = histogram.percentile(500);
        let p99 = histogram.percentile(990);
        assert!((500_000..=508_000).contains(&p50), "{p50}");
        assert!((990_000..=1_000_000).contains(&p99), "{p99}");
        assert_eq!(histogram.percentile(1000), 1_000_000);
    }
}
