//! The command line: every limit on what one run may do is checked here, before a socket exists.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

pub const CONNECTIONS_MAX: usize = 16_384;
pub const DEPTH_MAX: usize = 64;
pub const SECONDS_MAX: f64 = 3600.0;
pub const COUNT_MAX: u64 = 1_000_000_000;
pub const RATE_MAX: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cycle,
    Consume,
}

/// Connections that follow one flow: `--cycle 64:FILE` or `--consume 16:FILE`.
#[derive(Debug)]
pub struct Group {
    pub kind: Kind,
    pub connections: usize,
    pub file: String,
}

#[derive(Debug)]
pub struct Options {
    pub target: SocketAddr,
    pub groups: Vec<Group>,
    pub duration: Duration,
    pub warmup: Duration,
    pub count: Option<u64>,
    pub depth: usize,
    /// Requests per second of an open loop; without it the loop is closed.
    pub rate: Option<u64>,
    pub core: Option<usize>,
    pub watched: Vec<i32>,
    pub stop_empty: u32,
}

pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut arguments = arguments;
    let mut target = None;
    let mut options = Options {
        target: SocketAddr::from(([127, 0, 0, 1], 0)),
        groups: Vec::new(),
        duration: Duration::ZERO,
        warmup: Duration::ZERO,
        count: None,
        depth: 1,
        rate: None,
        core: None,
        watched: Vec::new(),
        stop_empty: 0,
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--target" => target = Some(loopback(&value)?),
            "--cycle" => options.groups.push(group(Kind::Cycle, &value)?),
            "--consume" => options.groups.push(group(Kind::Consume, &value)?),
            "--seconds" => options.duration = seconds(&value)?,
            "--warmup" => options.warmup = seconds(&value)?,
            "--count" => options.count = Some(number(&name, &value, 1, COUNT_MAX)?),
            "--depth" => options.depth = number(&name, &value, 1, DEPTH_MAX)?,
            "--rate" => options.rate = Some(number(&name, &value, 1, RATE_MAX)?),
            "--core" => options.core = Some(number(&name, &value, 0, 1023)?),
            "--watch-pid" => options.watched.push(number(&name, &value, 1, i32::MAX)?),
            "--stop-empty" => options.stop_empty = number(&name, &value, 1, u32::MAX)?,
            _ => return Err(format!("unknown option {name}")),
        }
    }
    options.target = target.ok_or("--target IP:PORT is missing")?;
    check(options)
}

fn check(options: Options) -> Result<Options, String> {
    let connections: usize = options.groups.iter().map(|group| group.connections).sum();
    if connections == 0 || connections > CONNECTIONS_MAX {
        return Err(format!(
            "between 1 and {CONNECTIONS_MAX} connections, not {connections}"
        ));
    }
    if options.duration.is_zero() {
        return Err("--seconds is missing: a run is always bounded in time".into());
    }
    if options.rate.is_some() && options.groups.iter().any(|group| group.kind != Kind::Cycle) {
        return Err("--rate sets the pace of requests that depend on no answer: --cycle".into());
    }
    if options.count.is_some() && !options.warmup.is_zero() {
        return Err("--count measures every request, so it takes no --warmup".into());
    }
    Ok(options)
}

/// Names are refused with the rest: what a resolver answers is not known to be this machine.
fn loopback(value: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = value
        .parse()
        .map_err(|_| format!("--target {value} is not a numeric IP:PORT"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(format!(
            "--target {value} is not a loopback address: refused"
        ))
    }
}

fn group(kind: Kind, value: &str) -> Result<Group, String> {
    let (count, file) = value
        .split_once(':')
        .ok_or(format!("{value} is not COUNT:FILE"))?;
    let connections = number("connections", count, 1, CONNECTIONS_MAX)?;
    Ok(Group {
        kind,
        connections,
        file: file.to_string(),
    })
}

fn seconds(value: &str) -> Result<Duration, String> {
    match value.parse::<f64>() {
        Ok(seconds) if (0.0..=SECONDS_MAX).contains(&seconds) => {
            Ok(Duration::from_secs_f64(seconds))
        }
        _ => Err(format!(
            "{value} is not a number of seconds up to {SECONDS_MAX}"
        )),
    }
}

fn number<T>(name: &str, value: &str, least: T, most: T) -> Result<T, String>
where
    T: FromStr + PartialOrd + Copy + std::fmt::Display,
{
    match value.parse::<T>() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("{name}: {value} is not between {least} and {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, Options};

    fn parsed(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(str::to_string))
    }

    #[test]
    fn both_families_of_loopback_are_accepted() {
        for target in ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80"] {
            assert!(parsed(&format!("--target {target} --cycle 1:f --seconds 1")).is_ok());
        }
    }

    #[test]
    fn anything_but_numeric_loopback_is_refused() {
        for target in [
            "10.0.0.1:80",
            "0.0.0.0:80",
            "[::]:80",
            "localhost:80",
            "127.0.0.1",
        ] {
            assert!(parsed(&format!("--target {target} --cycle 1:f --seconds 1")).is_err());
        }
    }

    #[test]
    fn a_run_is_bounded_in_time_connections_and_depth() {
        let fits = "--target 127.0.0.1:1 --cycle 4:f --seconds 2";
        assert!(parsed(fits).is_ok());
        for excess in [
            "--seconds 3601",
            "--seconds nan",
            "--cycle 16381:f",
            "--depth 65",
            "--rate 0",
            "--rate 1000001",
            "--rate 1 --consume 1:f",
        ] {
            assert!(parsed(&format!("{fits} {excess}")).is_err(), "{excess}");
        }
        assert!(parsed("--target 127.0.0.1:1 --cycle 4:f").is_err());
        assert!(parsed("--target 127.0.0.1:1 --seconds 1").is_err());
    }
}
