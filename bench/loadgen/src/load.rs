//! The shell: sockets, the closed loop over them, and the window in which it is measured.
//!
//! A connection sends its next request when an answer frees a place; nothing else wakes it. So the
//! run is over when nothing is outstanding, and what was sent is answered unless the server failed.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::flow::{step_names, Counts, Flow, Step};
use crate::histogram::Histogram;
use crate::http;
use crate::identity::Identities;
use crate::options::{Group, Kind, Options};
use crate::system::{self, Poller};

/// How late the ends of the window may be noticed while the server is silent.
const TICK_MS: i32 = 5;
/// How long answers may still come in after the last request was sent.
const GRACE: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 256 * 1024;
const FAILURE_BYTES_MAX: usize = 300;

pub struct StepTally {
    pub name: &'static str,
    pub latencies: Histogram,
    pub statuses: BTreeMap<u16, u64>,
}

pub struct GroupTally {
    pub kind: Kind,
    pub connections: usize,
    pub counts: Counts,
    pub steps: Vec<StepTally>,
}

/// Statuses and message counts are of the whole run, latencies and times of the window only.
pub struct Outcome {
    pub elapsed_ns: u64,
    pub client_cpu_ns: u64,
    pub watched_cpu_ns: u64,
    pub sent: u64,
    pub answered: u64,
    pub connections_lost: u64,
    pub first_failure: Option<String>,
    pub groups: Vec<GroupTally>,
}

pub fn run(options: &Options) -> io::Result<Outcome> {
    system::raise_file_limit()?;
    if let Some(core) = options.core {
        system::pin_to_core(core)?;
    }
    let mut poller = Poller::new()?;
    let mut connections = connect(options, &poller)?;
    let mut load = Load::new(options);
    for connection in &mut connections {
        load.refill(connection);
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

struct Connection {
    /// `None` once the server has closed it.
    stream: Option<TcpStream>,
    flow: Flow,
    group: usize,
    inbound: Vec<u8>,
    outbound: Vec<u8>,
    written: usize,
    under_way: VecDeque<(Step, Instant)>,
}

impl Connection {
    fn new(stream: TcpStream, flow: Flow, group: usize) -> Self {
        Self {
            stream: Some(stream),
            flow,
            group,
            inbound: Vec::new(),
            outbound: Vec::new(),
            written: 0,
            under_way: VecDeque::new(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        while self.written < self.outbound.len() {
            match stream.write(&self.outbound[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.outbound.clear();
        self.written = 0;
        Ok(())
    }
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
    identities: Identities,
    scratch: Vec<u8>,
    outcome: Outcome,
}

impl Load {
    fn new(options: &Options) -> Self {
        let opens = Instant::now() + options.warmup;
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
            identities: Identities::new(std::process::id()),
            scratch: vec![0; READ_BYTES],
            outcome: empty_outcome(&options.groups),
        }
    }

    fn drive(&mut self, poller: &mut Poller, connections: &mut [Connection]) -> io::Result<()> {
        let mut ready = Vec::new();
        self.observe(Instant::now())?;
        while self.outstanding > 0 {
            match poller.wait(TICK_MS, &mut ready) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            let now = Instant::now();
            self.observe(now)?;
            if now >= self.closes + GRACE {
                break;
            }
            for number in &ready {
                self.serve(&mut connections[*number])?;
            }
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

    fn serve(&mut self, connection: &mut Connection) -> io::Result<()> {
        let is_alive = connection.flush().is_ok() && self.read(connection)?;
        if is_alive {
            self.refill(connection);
        } else {
            self.lose(connection);
        }
        Ok(())
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
            tally.latencies.add(nanoseconds(took));
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
            let start = connection.outbound.len();
            let Some(step) = connection.flow.send(&mut connection.outbound) else {
                break;
            };
            self.identities.renew(&mut connection.outbound[start..]);
            connection.under_way.push_back((step, now));
            self.budget = self.budget.saturating_sub(1);
            self.outstanding += 1;
            self.outcome.sent += 1;
        }
        if connection.flush().is_err() {
            self.lose(connection);
        }
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

fn empty_outcome(groups: &[Group]) -> Outcome {
    let step = |name: &&'static str| StepTally {
        name,
        latencies: Histogram::new(),
        statuses: BTreeMap::new(),
    };
    let group = |group: &Group| GroupTally {
        kind: group.kind,
        connections: group.connections,
        counts: Counts::default(),
        steps: step_names(group.kind).iter().map(step).collect(),
    };
    Outcome {
        elapsed_ns: 0,
        client_cpu_ns: 0,
        watched_cpu_ns: 0,
        sent: 0,
        answered: 0,
        connections_lost: 0,
        first_failure: None,
        groups: groups.iter().map(group).collect(),
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn invalid(problem: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, problem.into())
}
