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
use crate::node::{Committed, Node, Turn};
use crate::simdisk;

create_exception!(_raftlog, LogCorrupt, PyException, "Stored entries are damaged or missing.");
create_exception!(_raftlog, LogFormat, PyException, "The log is of another version or owner.");
create_exception!(_raftlog, LogFull, PyException, "The disk has no room for another block.");
create_exception!(_raftlog, NotLeader, PyException, "This node does not lead the group.");

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Corrupt(_) => LogCorrupt::new_err(text),
            Error::Format(_) => LogFormat::new_err(text),
            Error::Full => LogFull::new_err(text),
            Error::NotLeader => NotLeader::new_err(text),
            Error::Misuse(_) => PyValueError::new_err(text),
            Error::Io { source, .. } => PyOSError::new_err((source.raw_os_error(), text)),
        }
    }
}

type Sends<'py> = Vec<(u64, Bound<'py, PyBytes>)>;
type Batches<'py> = Vec<(u32, u64, u64, Bound<'py, PyList>)>;
type Reads<'py> = Vec<(u32, Bound<'py, PyBytes>, u64)>;
type Roles = Vec<(u32, &'static str, u64, u64)>;

/// All Raft groups of a worker over one durable log.
#[pyclass(module = "fastnode._raftlog")]
struct RaftGroups {
    node: Node,
}

#[pymethods]
impl RaftGroups {
    #[new]
    #[pyo3(signature = (node_id, directory, groups, *, voters, applied, segment_bytes=67_108_864,
        election_ticks=10, heartbeat_ticks=2, sync=true, manual=false, disk=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        node_id: u64,
        directory: &str,
        groups: usize,
        voters: Vec<u64>,
        applied: Vec<u64>,
        segment_bytes: u64,
        election_ticks: usize,
        heartbeat_ticks: usize,
        sync: bool,
        manual: bool,
        disk: Option<PyRef<'_, SimDisk>>,
    ) -> PyResult<Self> {
        if applied.len() != groups {
            return Err(PyValueError::new_err("applied needs one index per group"));
        }
        let is_deterministic = manual;
        let node = node_id;
        let settings = Settings { node, voters, election_ticks, heartbeat_ticks, is_deterministic };
        let simulated = disk.map(|disk| disk.inner.clone());
        let node = py.detach(move || {
            let disk: Arc<dyn Disk> = match simulated {
                Some(disk) => Arc::new(disk),
                None => Arc::new(
                    RealDisk::new(Path::new(directory), sync)
                        .map_err(|error| Error::io(format!("open {directory}"), error))?,
                ),
            };
            Node::new(disk, &settings, &applied, segment_bytes, manual)
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

    #[allow(clippy::type_complexity)]
    fn ready<'py>(
        &mut self,
        py: Python<'py>,
    ) -> PyResult<(Sends<'py>, Batches<'py>, Reads<'py>, Roles, bool)> {
        let Turn { sends, committed, reads, roles, persisting } = self.node.ready()?;
        let sends = sends.iter().map(|(peer, packet)| (*peer, PyBytes::new(py, packet)));
        let committed: PyResult<_> = committed.iter().map(|batch| batch_out(py, batch)).collect();
        let reads =
            reads.iter().map(|(group, context, index)| (*group, PyBytes::new(py, context), *index));
        let roles =
            roles.iter().map(|(group, (role, term, leader))| (*group, role.name(), *term, *leader));
        Ok((sends.collect(), committed?, reads.collect(), roles.collect(), persisting))
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

    fn status<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let log = self.node.log();
        let status = PyDict::new(py);
        let (log_bytes, live_bytes) = log.segments().totals();
        status.set_item("log_bytes", log_bytes)?;
        status.set_item("live_bytes", live_bytes)?;
        status.set_item("segments", log.segments().count())?;
        status.set_item("fsyncs", log.writer().syncs())?;
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
    module.add("NotLeader", py.get_type::<NotLeader>())
}
