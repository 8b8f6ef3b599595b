//! A disk in memory that loses and tears what was not synced, runs full and fails on request.
//! The same seed and the same calls give the same outcome.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::disk::{Disk, File};

#[derive(Clone, Default)]
struct Node {
    durable: Vec<u8>,
    live: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone)]
enum Change {
    Link(String, usize),
    Unlink(String),
    Rename(String, String),
}

struct State {
    nodes: Vec<Node>,
    durable_names: BTreeMap<String, usize>,
    names: BTreeMap<String, usize>,
    changes: Vec<Change>,
    free: u64,
    failing_syncs: u32,
    sync_time: Duration,
    is_lying: bool,
    /// Changes until the power fails.
    fuse: Option<u64>,
    syncs: u64,
    epoch: u64,
    random: u64,
}

/// See the top of the file. Clones share one disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

struct SimFile {
    state: Arc<Mutex<State>>,
    node: usize,
    epoch: u64,
}

impl SimDisk {
    /// An empty disk without a limit.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            nodes: Vec::new(),
            durable_names: BTreeMap::new(),
            names: BTreeMap::new(),
            changes: Vec::new(),
            free: u64::MAX,
            failing_syncs: 0,
            sync_time: Duration::ZERO,
            is_lying: false,
            fuse: None,
            syncs: 0,
            epoch: 0,
            random: seed ^ 0x9E37_79B9_7F4A_7C15,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// The power fails: of what was not synced any part may survive, files open now are dead.
    pub fn crash(&self) {
        let mut state = self.lock();
        state.epoch += 1;
        state.fuse = None;
        for index in 0..state.nodes.len() {
            let mut node = std::mem::take(&mut state.nodes[index]);
            for (offset, bytes) in std::mem::take(&mut node.pending) {
                let kept = state.surviving(bytes.len());
                put(&mut node.durable, offset, &bytes[..kept]);
            }
            node.live.clone_from(&node.durable);
            state.nodes[index] = node;
        }
        // A journalling file system keeps the order of changes to a directory.
        let changes = std::mem::take(&mut state.changes);
        let kept = state.below(changes.len() as u64 + 1);
        for change in changes.into_iter().take(usize::try_from(kept).unwrap_or(usize::MAX)) {
            change.apply(&mut state.durable_names);
        }
        state.names = state.durable_names.clone();
    }

    /// After this many more changes nothing works until [`Self::crash`] turns the power on again.
    pub fn burn_fuse(&self, changes: u64) {
        self.lock().fuse = Some(changes);
    }

    /// True when the power has failed.
    #[must_use]
    pub fn is_dark(&self) -> bool {
        self.lock().fuse == Some(0)
    }

    /// How many bytes files may grow by from now on.
    pub fn set_free(&self, bytes: u64) {
        self.lock().free = bytes;
    }

    /// The next sync of a file fails with an input/output error.
    pub fn fail_next_sync(&self) {
        self.lock().failing_syncs += 1;
    }

    /// How long a sync of a file takes from now on.
    pub fn set_sync_time(&self, time: Duration) {
        self.lock().sync_time = time;
    }

    /// Whether syncs only pretend: a log that forgets to sync looks the same.
    pub fn ignore_syncs(&self, is_ignored: bool) {
        self.lock().is_lying = is_ignored;
    }

    /// How many syncs of files have been done.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// Inverts one byte, behind the back of whoever uses the disk.
    pub fn flip(&self, name: &str, offset: usize) {
        self.edit(name, |bytes| bytes[offset] ^= 0xFF);
    }

    /// Replaces bytes, behind the back of whoever uses the disk.
    pub fn overwrite(&self, name: &str, offset: usize, bytes: &[u8]) {
        self.edit(name, |content| put(content, offset, bytes));
    }

    /// Cuts a file, behind the back of whoever uses the disk.
    pub fn truncate(&self, name: &str, length: usize) {
        self.edit(name, |bytes| bytes.truncate(length));
    }

    /// A file's whole content.
    #[must_use]
    pub fn content(&self, name: &str) -> Vec<u8> {
        let state = self.lock();
        state.nodes[state.names[name]].live.clone()
    }

    /// An independent disk with the same content and seed state.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.lock();
        let copy = State {
            nodes: state.nodes.clone(),
            durable_names: state.durable_names.clone(),
            names: state.names.clone(),
            changes: state.changes.clone(),
            ..*state
        };
        Self { state: Arc::new(Mutex::new(copy)) }
    }

    fn edit(&self, name: &str, change: impl Fn(&mut Vec<u8>)) {
        let mut state = self.lock();
        let index = state.names[name];
        let node = &mut state.nodes[index];
        change(&mut node.live);
        change(&mut node.durable);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn put(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if content.len() < offset + bytes.len() {
        content.resize(offset + bytes.len(), 0);
    }
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
}

impl State {
    /// Xorshift: small, seeded and good enough to choose what a crash keeps.
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % bound
    }

    fn surviving(&mut self, length: usize) -> usize {
        match self.below(3) {
            0 => 0,
            1 => length,
            _ => usize::try_from(self.below(length as u64 + 1)).unwrap_or(0),
        }
    }

    fn grow(&mut self, node: usize, length: usize) -> io::Result<()> {
        let more = length.saturating_sub(self.nodes[node].live.len()) as u64;
        if more > self.free {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        if self.free != u64::MAX {
            self.free -= more;
        }
        Ok(())
    }

    fn change(&mut self, change: Change) {
        change.clone().apply(&mut self.names);
        self.changes.push(change);
    }

    fn burn(&mut self) -> io::Result<()> {
        match &mut self.fuse {
            Some(0) => Err(io::Error::other("the power has failed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }
}

impl Change {
    fn apply(self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Link(name, node) => {
                names.insert(name, node);
            }
            Self::Unlink(name) => {
                names.remove(&name);
            }
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(&from) {
                    names.insert(to, node);
                }
            }
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let state = self.lock();
        let node = state.find(name)?;
        Ok(Arc::new(SimFile { state: self.state.clone(), node, epoch: state.epoch }))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.lock();
        state.burn()?;
        state.nodes.push(Node::default());
        let node = state.nodes.len() - 1;
        state.change(Change::Link(name.to_owned(), node));
        Ok(Arc::new(SimFile { state: self.state.clone(), node, epoch: state.epoch }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.burn()?;
        state.find(from)?;
        state.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.burn()?;
        let node = state.find(name)?;
        let freed = state.nodes[node].live.len() as u64;
        state.free = state.free.saturating_add(freed);
        state.change(Change::Unlink(name.to_owned()));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.burn()?;
        state.durable_names = state.names.clone();
        state.changes.clear();
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(self.lock().free)
    }

    fn secret(&self) -> io::Result<u64> {
        Ok(self.lock().below(u64::MAX))
    }

    fn label(&self) -> String {
        "simulated".to_owned()
    }
}

impl SimFile {
    fn lock(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        if state.epoch == self.epoch {
            Ok(state)
        } else {
            Err(io::Error::other("the disk has crashed since this file was opened"))
        }
    }
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.lock()?;
        let live = &state.nodes[self.node].live;
        let start = usize::try_from(offset).map_err(io::Error::other)?.min(live.len());
        let count = buffer.len().min(live.len() - start);
        buffer[..count].copy_from_slice(&live[start..start + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.lock()?;
        state.burn()?;
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        state.grow(self.node, offset + bytes.len())?;
        let node = &mut state.nodes[self.node];
        put(&mut node.live, offset, bytes);
        node.pending.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let time = self.lock()?.sync_time;
        std::thread::sleep(time);
        let mut state = self.lock()?;
        state.burn()?;
        if state.failing_syncs > 0 {
            state.failing_syncs -= 1;
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        state.syncs += 1;
        if state.is_lying {
            return Ok(());
        }
        let node = &mut state.nodes[self.node];
        for (offset, bytes) in std::mem::take(&mut node.pending) {
            put(&mut node.durable, offset, &bytes);
        }
        node.durable.resize(node.live.len(), 0);
        Ok(())
    }

    fn allocate(&self, _from: u64, end: u64) -> io::Result<()> {
        let mut state = self.lock()?;
        state.burn()?;
        let length = usize::try_from(end).map_err(io::Error::other)?;
        state.grow(self.node, length)?;
        let node = &mut state.nodes[self.node];
        if node.live.len() < length {
            node.live.resize(length, 0);
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.lock()?.nodes[self.node].live.len() as u64)
    }
}
