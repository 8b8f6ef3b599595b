//! The shell: sockets, the loop over them, and the window in which it is measured.
//!
//! In a closed loop a connection sends its next request when an answer frees a place; nothing else
//! wakes it. In an open loop the schedule says when, and the connection that has been free the
//! longest sends. A run is over when nothing is outstanding and nothing will be due, and what was
//! sent is answered unless the server failed.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::flow::{Flow, Step};
use crate::http;
use crate::identity::Identities;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::schedule::{Schedule, PATIENCE};
use crate::system::{self, Poller};

/// How late the ends of the window may be noticed while the server is silent.
const TICK_MS: i32 = 5;
/// How long answers may still come in after the last request was sent.
const GRACE: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 256 * 1024;
const FAILURE_BYTES_MAX: usize = 300;

pub fn run(options: &Options) -> io::Result<Outcome> {
    system::raise_file_limit()?;
    if let Some(core) = options.core {
        system::pin_to_core(core)?;
    }
    let mut poller = Poller::new()?;
    let mut connections = connect(options, &poller)?;
    let mut load = Load::new(options);
    for number in 0..connections.len() {
        load.go_on(&mut connections, number);
    }
    load.drive(&mut poller, &mut connections)?;
    load.finish()
}

fn connect(options: &Options, poller: &Poller) -> io::Result<Vec<Connection>> {
    let mut connections = Vec::new();
    for (number, group) in options.groups.iter().enumerate() {
        let file = std::fs::read(&group.file)?;
        let flows = Flow::build(group.kind, &file, group.connections, options.stop_empty)
            .map_err(|problem| invalid(format!("{}: {problem}", group.file)))?;
        for flow in flows {
            let stream = TcpStream::connect(options.target)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            poller.add(stream.as_raw_fd(), connections.len())?;
            connections.push(Connection::new(stream, flow, number));
        }
    }
    Ok(connections)
}

/// CPU clocks at one moment.
struct Reading {
    at: Instant,
    own_ns: u64,
    watched_ns: u64,
}

struct Load {
    watched: Vec<i32>,
    depth: usize,
    budget: u64,
    duration: Duration,
    opens: Instant,
    closes: Instant,
    opened: Option<Reading>,
    closed: Option<Reading>,
    outstanding: u64,
    schedule: Option<Schedule>,
    free: VecDeque<usize>,
    identities: Identities,
    scratch: Vec<u8>,
    outcome: Outcome,
}

impl Load {
    fn new(options: &Options) -> Self {
        let start = Instant::now();
        let opens = start + options.warmup;
        Self {
            watched: options.watched.clone(),
            depth: options.depth,
            budget: options.count.unwrap_or(u64::MAX),
            duration: options.duration,
            opens,
            closes: opens + options.duration,
            opened: None,
            closed: None,
            outstanding: 0,
            schedule: options.rate.map(|rate| Schedule::new(start, rate)),
            free: VecDeque::new(),
            identities: Identities::new(std::process::id()),
            scratch: vec![0; READ_BYTES],
            outcome: Outcome::empty(&options.groups),
        }
    }

    fn drive(&mut self, poller: &mut Poller, connections: &mut [Connection]) -> io::Result<()> {
        let mut ready = Vec::new();
        self.observe(Instant::now())?;
        self.send_due(connections);
        while self.outstanding > 0 || self.is_more_due() {
            match poller.wait(self.wait_ms(), &mut ready) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            let now = Instant::now();
            self.observe(now)?;
            if now >= self.closes + GRACE {
                break;
            }
            for number in &ready {
                self.serve(connections, *number)?;
            }
            self.send_due(connections);
        }
        if self.closed.is_none() {
            self.closed = Some(self.read_clocks(Instant::now())?);
        }
        Ok(())
    }

    /// Opens and closes the window; an answer counts as measured if it is read in between. A window
    /// that opens late also closes late, so that it never is shorter than asked for.
    fn observe(&mut self, now: Instant) -> io::Result<()> {
        if self.opened.is_none() && now >= self.opens {
            self.opened = Some(self.read_clocks(now)?);
            self.closes = now + self.duration;
        }
        if self.closed.is_none() && now >= self.closes {
            self.closed = Some(self.read_clocks(now)?);
        }
        Ok(())
    }

    fn read_clocks(&self, at: Instant) -> io::Result<Reading> {
        let watched: io::Result<u64> = self
            .watched
            .iter()
            .map(|pid| system::process_cpu_ns(*pid))
            .sum();
        Ok(Reading {
            at,
            own_ns: system::own_cpu_ns()?,
            watched_ns: watched?,
        })
    }

    fn is_more_due(&self) -> bool {
        self.schedule
            .as_ref()
            .is_some_and(|schedule| self.budget > 0 && schedule.next() < self.closes)
    }

    /// Not longer than until the next request is due. What is due already waits for an answer.
    fn wait_ms(&self) -> i32 {
        let Some(schedule) = &self.schedule else {
            return TICK_MS;
        };
        let left = schedule.next().saturating_duration_since(Instant::now());
        if left.is_zero() && self.free.is_empty() {
            return TICK_MS;
        }
        i32::try_from(left.as_millis()).map_or(TICK_MS, |left| left.min(TICK_MS))
    }

    fn serve(&mut self, connections: &mut [Connection], number: usize) -> io::Result<()> {
        let connection = &mut connections[number];
        let is_alive = connection.flush().is_ok() && self.read(connection)?;
        if is_alive {
            self.go_on(connections, number);
        } else {
            self.lose(connection);
        }
        Ok(())
    }

    /// In a closed loop it sends what it can; in an open one it may be called upon.
    fn go_on(&mut self, connections: &mut [Connection], number: usize) {
        let connection = &mut connections[number];
        if self.schedule.is_none() {
            self.refill(connection);
            return;
        }
        let free = self.depth.saturating_sub(connection.under_way.len());
        while connection.listed < free {
            connection.listed += 1;
            self.free.push_back(number);
        }
    }

    fn send_due(&mut self, connections: &mut [Connection]) {
        let Some(mut schedule) = self.schedule.take() else {
            return;
        };
        let now = Instant::now();
        while self.budget > 0 && now < self.closes && schedule.next() <= now {
            let Some(number) = self.free.pop_front() else {
                break;
            };
            let connection = &mut connections[number];
            connection.listed -= 1;
            if connection.stream.is_none() {
                continue;
            }
            if let Some(due) = schedule.take(now) {
                self.send(connection, due);
            }
            if connection.flush().is_err() {
                self.lose(connection);
            }
        }
        // What was due before the end and is not sent by then never will be.
        let is_over = now >= self.closes;
        schedule.give_up(if is_over { self.closes + PATIENCE } else { now });
        self.outcome.unsent = schedule.unsent;
        self.schedule = Some(schedule);
    }

    /// Reads until the socket is empty; a short read shows that without another call.
    fn read(&mut self, connection: &mut Connection) -> io::Result<bool> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut count = scratch.len();
        let mut is_alive = true;
        while is_alive && count == scratch.len() {
            let Some(stream) = &mut connection.stream else {
                break;
            };
            count = match stream.read(&mut scratch) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => 0,
            };
            is_alive = count > 0;
            self.take(connection, &scratch[..count])?;
        }
        self.scratch = scratch;
        Ok(is_alive)
    }

    fn take(&mut self, connection: &mut Connection, bytes: &[u8]) -> io::Result<()> {
        if connection.inbound.is_empty() {
            let used = self.take_answers(connection, bytes)?;
            connection.inbound.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        let mut inbound = std::mem::take(&mut connection.inbound);
        inbound.extend_from_slice(bytes);
        let used = self.take_answers(connection, &inbound)?;
        inbound.drain(..used);
        connection.inbound = inbound;
        Ok(())
    }

    fn take_answers(&mut self, connection: &mut Connection, bytes: &[u8]) -> io::Result<usize> {
        let now = Instant::now();
        let mut used = 0;
        while let Some(answer) = http::parse_answer(&bytes[used..]).map_err(invalid)? {
            let (step, sent_at) = connection
                .under_way
                .pop_front()
                .ok_or_else(|| invalid("an answer that nobody asked for"))?;
            self.record(connection.group, step, now - sent_at, &answer);
            let counts = &mut self.outcome.groups[connection.group].counts;
            connection.flow.answered(step, &answer, counts);
            used += answer.length;
        }
        Ok(used)
    }

    fn record(&mut self, group: usize, step: Step, took: Duration, answer: &http::Answer<'_>) {
        self.outstanding -= 1;
        self.outcome.answered += 1;
        let tally = &mut self.outcome.groups[group].steps[step];
        *tally.statuses.entry(answer.status).or_insert(0) += 1;
        if self.opened.is_some() && self.closed.is_none() {
            if answer.status == 200 {
                tally.latencies.add(nanoseconds(took));
            } else {
                tally.refused += 1;
            }
        }
        if answer.status != 200 && self.outcome.first_failure.is_none() {
            let body = &answer.body[..answer.body.len().min(FAILURE_BYTES_MAX)];
            let text = format!("{} {}", answer.status, String::from_utf8_lossy(body));
            self.outcome.first_failure = Some(text);
        }
    }

    /// Sends as many requests as the depth, the budget and the time allow.
    fn refill(&mut self, connection: &mut Connection) {
        let now = Instant::now();
        let depth = connection.flow.depth(self.depth);
        while connection.under_way.len() < depth
            && (connection.flow.must_send() || self.budget > 0 && now < self.closes)
        {
            if !self.send(connection, now) {
                break;
            }
        }
        if connection.flush().is_err() {
            self.lose(connection);
        }
    }

    /// False if the flow has come to its end.
    fn send(&mut self, connection: &mut Connection, since: Instant) -> bool {
        let start = connection.outbound.len();
        let Some(step) = connection.flow.send(&mut connection.outbound) else {
            return false;
        };
        self.identities.renew(&mut connection.outbound[start..]);
        connection.under_way.push_back((step, since));
        self.budget = self.budget.saturating_sub(1);
        self.outstanding += 1;
        self.outcome.sent += 1;
        true
    }

    fn lose(&mut self, connection: &mut Connection) {
        if connection.stream.take().is_some() {
            self.outcome.connections_lost += 1;
            self.outstanding -= connection.under_way.len() as u64;
            connection.under_way.clear();
        }
    }

    fn finish(mut self) -> io::Result<Outcome> {
        let (Some(opened), Some(closed)) = (self.opened, self.closed) else {
            return Err(invalid("the load ended before the warm-up did"));
        };
        self.outcome.elapsed_ns = nanoseconds(closed.at - opened.at);
        self.outcome.client_cpu_ns = closed.own_ns - opened.own_ns;
        self.outcome.watched_cpu_ns = closed.watched_ns - opened.watched_ns;
        Ok(self.outcome)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn invalid(problem: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, problem.into())
}
