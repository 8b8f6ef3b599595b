//! The Python surface: converts, calls, converts back. No rule of the log lives here.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::disk::{Disk, RealDisk};
use crate::errors::Error;
use crate::group::{Group, Settings};
use crate::members::Kind;
use crate::node::{Machine, Node};
use crate::record::Position;
use crate::simdisk;
use crate::snapshots::Restored;
use crate::turn::{Committed, Installation, Turn};

create_exception!(_raftlog, LogCorrupt, PyException, "Stored entries are damaged or missing.");
create_exception!(_raftlog, LogFormat, PyException, "The log is of another version or owner.");
create_exception!(_raftlog, LogFull, PyException, "The disk has no room for another block.");
create_exception!(_raftlog, NotLeader, PyException, "This node does not lead the group.");
create_exception!(_raftlog, MembersBusy, PyException, "Members cannot change now.");
create_exception!(_raftlog, TooMuchPending, PyException, "Too many bytes wait to be committed.");

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Corrupt(_) => LogCorrupt::new_err(text),
            Error::Format(_) => LogFormat::new_err(text),
            Error::Full => LogFull::new_err(text),
            Error::NotLeader => NotLeader::new_err(text),
            Error::MembersBusy(_) => MembersBusy::new_err(text),
            Error::TooMuchPending => TooMuchPending::new_err(text),
            Error::Misuse(_) => PyValueError::new_err(text),
            Error::Io { source, .. } => PyOSError::new_err((source.raw_os_error(), text)),
        }
    }
}

type Sends<'py> = Vec<(u64, Bound<'py, PyBytes>)>;
type Batches<'py> = Vec<(u32, u64, u64, Bound<'py, PyList>)>;
type Reads<'py> = Vec<(u32, Bound<'py, PyBytes>, u64)>;
type Roles = Vec<(u32, &'static str, u64, u64)>;
type MemberLists = Vec<(u32, u64, Vec<u64>, Vec<u64>)>;
type Wanted = Vec<(u32, u64)>;
type Offers<'py> = Vec<(u32, u64, Bound<'py, PyBytes>)>;
type Install<'py> = (u32, u64, u64, Vec<u64>, Vec<u64>, Bound<'py, PyBytes>);
type Answer<'py> = (
    Sends<'py>,
    Batches<'py>,
    Reads<'py>,
    Roles,
    bool,
    MemberLists,
    Wanted,
    Offers<'py>,
    Vec<Install<'py>>,
);
type Origin = (u64, u64, Vec<u64>, Vec<u64>);

/// All Raft groups of a worker over one durable log.
#[pyclass(module = "fastnode._raftlog")]
struct RaftGroups {
    node: Node,
}

#[pymethods]
impl RaftGroups {
    #[new]
    #[pyo3(signature = (node_id, directory, groups, *, voters, applied, restored=None,
        segment_bytes=67_108_864, election_ticks=10, heartbeat_ticks=2,
        uncommitted_bytes=268_435_456, sync=true, manual=false, election_seed=0, disk=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        node_id: u64,
        directory: &str,
        groups: usize,
        voters: Vec<u64>,
        applied: Vec<u64>,
        restored: Option<Vec<Option<Origin>>>,
        segment_bytes: u64,
        election_ticks: usize,
        heartbeat_ticks: usize,
        uncommitted_bytes: u64,
        sync: bool,
        manual: bool,
        election_seed: u64,
        disk: Option<PyRef<'_, SimDisk>>,
    ) -> PyResult<Self> {
        let machines = machines_in(applied, restored, groups)?;
        let settings = Settings {
            node: node_id,
            voters,
            election_ticks,
            heartbeat_ticks,
            election_seed: manual.then_some(election_seed),
            uncommitted_bytes_max: uncommitted_bytes,
        };
        let simulated = disk.map(|disk| disk.inner.clone());
        let node = py.detach(move || {
            let disk: Arc<dyn Disk> = match simulated {
                Some(disk) => Arc::new(disk),
                None => Arc::new(
                    RealDisk::new(Path::new(directory), sync)
                        .map_err(|error| Error::io(format!("open {directory}"), error))?,
                ),
            };
            Node::new(disk, &settings, &machines, segment_bytes, manual)
        })?;
        Ok(Self { node })
    }

    fn fileno(&mut self) -> i32 {
        self.node.log().writer().descriptor()
    }

    fn tick(&mut self) {
        self.node.tick();
    }

    fn step(&mut self, packet: &[u8]) -> Vec<String> {
        self.node.step(packet)
    }

    fn propose(&mut self, group: u32, entry: &[u8]) -> PyResult<()> {
        Ok(self.node.propose(group, Bytes::copy_from_slice(entry))?)
    }

    fn propose_members(&mut self, group: u32, kind: &str, node: u64) -> PyResult<()> {
        let Some(kind) = Kind::named(kind) else {
            return Err(PyValueError::new_err("a kind is add-learner, add-voter or remove"));
        };
        Ok(self.node.propose_members(group, kind, node)?)
    }

    fn campaign(&mut self, group: u32) -> PyResult<()> {
        Ok(self.node.campaign(group)?)
    }

    fn snapshot_ready(&mut self, group: u32, index: u64, data: &[u8]) -> PyResult<()> {
        Ok(self.node.snapshot_ready(group, index, Bytes::copy_from_slice(data))?)
    }

    fn drop_snapshot(&mut self, group: u32) -> PyResult<()> {
        Ok(self.node.drop_snapshot(group)?)
    }

    fn report_snapshot(&mut self, group: u32, peer: u64, ok: bool) -> PyResult<()> {
        Ok(self.node.report_snapshot(group, peer, ok)?)
    }

    fn installed(&mut self, group: u32, index: u64) -> PyResult<()> {
        Ok(self.node.installed(group, index)?)
    }

    fn ready<'py>(&mut self, py: Python<'py>) -> PyResult<Answer<'py>> {
        answer_out(py, self.node.ready()?)
    }

    fn ready_here<'py>(&mut self, py: Python<'py>) -> PyResult<Answer<'py>> {
        answer_out(py, py.detach(|| self.node.ready_here())?)
    }

    fn applied(&mut self, positions: Vec<(u32, u64)>) -> PyResult<()> {
        for (group, index) in positions {
            self.node.applied(group, index)?;
        }
        Ok(())
    }

    fn compact(&mut self, group: u32, index: u64) -> PyResult<()> {
        Ok(self.node.compact(group, index)?)
    }

    fn read_index(&mut self, group: u32, context: &[u8]) -> PyResult<()> {
        Ok(self.node.read_index(group, context.to_vec())?)
    }

    fn transfer_leader(&mut self, group: u32, to: u64) -> PyResult<()> {
        Ok(self.node.transfer_leader(group, to)?)
    }

    fn report_unreachable(&mut self, peer: u64) {
        self.node.report_unreachable(peer);
    }

    fn persist_step(&mut self, py: Python<'_>) -> PyResult<bool> {
        Ok(py.detach(|| self.node.persist_step())?)
    }

    fn log_bytes(&mut self) -> u64 {
        self.node.log().segments().totals().0
    }

    fn status<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let log = self.node.log();
        let status = PyDict::new(py);
        let (log_bytes, live_bytes) = log.segments().totals();
        status.set_item("log_bytes", log_bytes)?;
        status.set_item("live_bytes", live_bytes)?;
        status.set_item("segments", log.segments().count())?;
        status.set_item("fsyncs", log.writer().syncs())?;
        let (sync_counts, sync_ns) = log.writer().sync_times();
        status.set_item("sync_counts", sync_counts)?;
        status.set_item("sync_ns", sync_ns)?;
        status.set_item("blocks", log.counters.blocks)?;
        status.set_item("repaired_bytes", log.counters.repaired_bytes)?;
        status.set_item("recovered_bytes", log.counters.recovered_bytes)?;
        status.set_item("recovery_ms", log.counters.recovery_ms)?;
        status.set_item("disk_full", log.is_full())?;
        let groups: PyResult<Vec<_>> =
            self.node.groups().iter().map(|group| group_out(py, group)).collect();
        status.set_item("groups", groups?)?;
        Ok(status)
    }

    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.node.close())?)
    }
}

fn machines_in(
    applied: Vec<u64>,
    restored: Option<Vec<Option<Origin>>>,
    groups: usize,
) -> PyResult<Vec<Machine>> {
    let restored = restored.unwrap_or_else(|| vec![None; applied.len()]);
    if applied.len() != groups || restored.len() != groups {
        return Err(PyValueError::new_err("applied and restored need one item per group"));
    }
    let machines = applied.into_iter().zip(restored).map(|(applied, origin)| {
        let restored = origin.map(|(index, term, voters, learners)| {
            Restored::new(Position { index, term }, voters, learners)
        });
        Ok(Machine { applied, restored: restored.transpose()? })
    });
    machines.collect()
}

fn answer_out(py: Python<'_>, turn: Turn) -> PyResult<Answer<'_>> {
    let Turn { sends, committed, reads, roles, members, offers, installs, .. } = turn;
    let bytes = |content: &[u8]| PyBytes::new(py, content);
    let sends = sends.iter().map(|(peer, packet)| (*peer, bytes(packet)));
    let committed: PyResult<_> = committed.iter().map(|batch| batch_out(py, batch)).collect();
    let reads = reads.iter().map(|(group, context, index)| (*group, bytes(context), *index));
    let roles =
        roles.iter().map(|(group, (role, term, leader))| (*group, role.name(), *term, *leader));
    let members = members.into_iter().map(|(group, members)| {
        (group, members.index, members.state.voters, members.state.learners)
    });
    let offers = offers.iter().map(|(group, peer, packet)| (*group, *peer, bytes(packet)));
    let installs = installs.into_iter().map(|install| install_out(py, install));
    Ok((
        sends.collect(),
        committed?,
        reads.collect(),
        roles.collect(),
        turn.persisting,
        members.collect(),
        turn.wanted,
        offers.collect(),
        installs.collect(),
    ))
}

fn install_out(py: Python<'_>, install: Installation) -> Install<'_> {
    let Installation { group, position, members, data } = install;
    let (voters, learners) = (members.state.voters, members.state.learners);
    (group, position.index, position.term, voters, learners, PyBytes::new(py, &data))
}

fn batch_out<'py>(
    py: Python<'py>,
    batch: &Committed,
) -> PyResult<(u32, u64, u64, Bound<'py, PyList>)> {
    let entries = PyList::new(py, batch.entries.iter().map(|entry| PyBytes::new(py, entry)))?;
    Ok((batch.group, batch.last_index, batch.last_term, entries))
}

fn group_out<'py>(py: Python<'py>, group: &Group) -> PyResult<Bound<'py, PyDict>> {
    let (role, term, leader) = group.standing();
    let status = PyDict::new(py);
    status.set_item("role", role.name())?;
    status.set_item("term", term)?;
    status.set_item("leader", leader)?;
    status.set_item("commit", group.commit())?;
    status.set_item("applied", group.applied())?;
    status.set_item("first", group.store().compacted().index + 1)?;
    status.set_item("last", group.store().last())?;
    let members = &group.store().members().state;
    status.set_item("voters", members.voters.clone())?;
    status.set_item("learners", members.learners.clone())?;
    status.set_item("snapshot", group.offered_index())?;
    status.set_item("installing", group.install.is_some())?;
    status.set_item("transferee", group.transferee())?;
    status.set_item("uncommitted_bytes", group.raft.raft.uncommitted_size())?;
    let peers = PyDict::new(py);
    for peer in group.peers() {
        let seen = PyDict::new(py);
        seen.set_item("match", peer.matched)?;
        seen.set_item("next", peer.next)?;
        seen.set_item("state", peer.state)?;
        seen.set_item("recent_active", peer.is_active)?;
        seen.set_item("pending_snapshot", peer.snapshot)?;
        peers.set_item(peer.node, seen)?;
    }
    status.set_item("peers", peers)?;
    Ok(status)
}

/// A disk in memory that crashes, fills up and fails on request.
#[pyclass(module = "fastnode._raftlog")]
struct SimDisk {
    inner: simdisk::SimDisk,
}

#[pymethods]
impl SimDisk {
    #[new]
    fn new(seed: u64) -> Self {
        Self { inner: simdisk::SimDisk::new(seed) }
    }

    fn crash(&self) {
        self.inner.crash();
    }

    fn set_free(&self, free: u64) {
        self.inner.set_free(free);
    }

    fn fail_next_sync(&self) {
        self.inner.fail_next_sync();
    }

    fn syncs(&self) -> u64 {
        self.inner.syncs()
    }

    fn ignore_syncs(&self, is_ignored: bool) {
        self.inner.ignore_syncs(is_ignored);
    }

    fn content<'py>(&self, py: Python<'py>, name: &str) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.content(name))
    }

    fn names(&self) -> PyResult<Vec<String>> {
        Ok(self.inner.list()?)
    }

    fn flip(&self, name: &str, offset: usize) {
        self.inner.flip(name, offset);
    }
}

/// Fills the module.
///
/// # Errors
/// Python's.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // After a panic the log's state is unknown, and Python would carry on with it.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("fastnode: bug in the log extension, stopping: {panic}");
        std::process::abort();
    }));
    let py = module.py();
    module.add_class::<RaftGroups>()?;
    module.add_class::<SimDisk>()?;
    module.add("LogCorrupt", py.get_type::<LogCorrupt>())?;
    module.add("LogFormat", py.get_type::<LogFormat>())?;
    module.add("LogFull", py.get_type::<LogFull>())?;
    module.add("NotLeader", py.get_type::<NotLeader>())?;
    module.add("MembersBusy", py.get_type::<MembersBusy>())?;
    module.add("TooMuchPending", py.get_type::<TooMuchPending>())
}
