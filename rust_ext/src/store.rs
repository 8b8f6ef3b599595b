//! One group's side of the log: what raft-rs asks its storage for. Recent entries are kept in
//! memory, older ones are read from their segment. Nothing here writes.

use std::collections::VecDeque;
use std::sync::Arc;

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use crate::errors::Result;
use crate::record::{self, Checkpoint, Hard, Placed, Position};
use crate::segment::Segments;

/// Applied entries of one group that stay in memory for slow followers.
const CACHE_BYTES: usize = 1 << 20;

/// Where an entry lies on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Segment number.
    pub segment: u64,
    /// Offset in the file.
    pub offset: u64,
}

/// One live entry.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Its term.
    pub term: u64,
    /// Encoded size.
    pub bytes: usize,
    /// Unknown until the block that carries it got its place.
    pub place: Option<Place>,
    entry: Option<Entry>,
}

impl Slot {
    /// An entry found on disk.
    #[must_use]
    pub fn stored(term: u64, bytes: usize, place: Place) -> Self {
        Self { term, bytes, place: Some(place), entry: None }
    }
}

/// See the top of the file.
pub struct GroupStore {
    segments: Arc<Segments>,
    hard: Hard,
    members: ConfState,
    compacted: Position,
    slots: VecDeque<Slot>,
    cached_bytes: usize,
    cached_after: u64,
}

impl GroupStore {
    /// A group as recovered; the slots follow `compacted` without a gap.
    #[must_use]
    pub fn new(segments: Arc<Segments>, state: Checkpoint, slots: VecDeque<Slot>) -> Self {
        let Checkpoint { hard, compacted, members, .. } = state;
        for slot in &slots {
            if let Some(place) = slot.place {
                segments.charge(place.segment, slot.bytes as u64);
            }
        }
        let cached_after = compacted.index + slots.len() as u64;
        Self { segments, hard, members, compacted, slots, cached_bytes: 0, cached_after }
    }

    /// Index of the last entry.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.compacted.index + self.slots.len() as u64
    }

    /// The last entry that was compacted away.
    #[must_use]
    pub fn compacted(&self) -> Position {
        self.compacted
    }

    /// Term, vote and commit as handed to the log last.
    #[must_use]
    pub fn hard(&self) -> Hard {
        self.hard
    }

    /// Takes over a new term, vote and commit.
    pub fn set_hard(&mut self, hard: Hard) {
        self.hard = hard;
    }

    /// All of the group except its entries.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            hard: self.hard,
            compacted: self.compacted,
            last: self.last(),
            members: self.members.clone(),
        }
    }

    /// Appends entries; the first one replaces what was at its index and behind.
    pub fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        assert!(first.index > self.compacted.index && first.index <= self.last() + 1);
        while self.last() >= first.index {
            let slot = self.slots.pop_back();
            self.forget(slot);
        }
        self.cached_after = self.cached_after.min(self.last());
        for entry in entries {
            assert_eq!(entry.index, self.last() + 1);
            let bytes = record::entry_bytes(entry);
            self.cached_bytes += bytes;
            let (term, entry) = (entry.term, Some(entry.clone()));
            self.slots.push_back(Slot { term, bytes, place: None, entry });
        }
    }

    /// Notes where an entry was put; one that was replaced meanwhile is ignored.
    pub fn set_place(&mut self, placed: &Placed, place: Place) {
        let Position { index, term } = placed.position;
        let Some(slot) = self.slot_index(index).and_then(|at| self.slots.get_mut(at)) else {
            return;
        };
        if slot.term != term {
            return;
        }
        if let Some(old) = slot.place.replace(place) {
            self.segments.release(old.segment, slot.bytes as u64);
        }
        self.segments.charge(place.segment, slot.bytes as u64);
    }

    /// Drops entries up to `index`; answers the new mark.
    pub fn compact(&mut self, index: u64) -> Position {
        let at = self.slot_index(index).expect("only live entries are compacted");
        let term = self.slots[at].term;
        for _ in 0..=at {
            let slot = self.slots.pop_front();
            self.forget(slot);
        }
        self.compacted = Position { index, term };
        self.cached_after = self.cached_after.max(index);
        self.compacted
    }

    /// Lets go of the memory of entries that are durable and applied.
    pub fn evict(&mut self, applied: u64) {
        while self.cached_bytes > CACHE_BYTES && self.cached_after < applied.min(self.last()) {
            self.cached_after += 1;
            let at = self.slot_index(self.cached_after).expect("cached entries are live");
            if self.slots[at].entry.take().is_some() {
                self.cached_bytes -= self.slots[at].bytes;
            }
        }
    }

    /// Live entries that lie in this segment, as contiguous runs.
    ///
    /// # Errors
    /// The disk's.
    pub fn entries_in(&self, segment: u64) -> Result<Vec<Vec<Entry>>> {
        let mut runs: Vec<Vec<Entry>> = Vec::new();
        for (index, slot) in (self.compacted.index + 1..).zip(&self.slots) {
            if slot.place.is_none_or(|place| place.segment != segment) {
                continue;
            }
            let entry = self.load(index, slot)?;
            match runs.last_mut() {
                Some(run) if run[run.len() - 1].index + 1 == index => run.push(entry),
                _ => runs.push(vec![entry]),
            }
        }
        Ok(runs)
    }

    fn forget(&mut self, slot: Option<Slot>) {
        let Some(slot) = slot else { return };
        if slot.entry.is_some() {
            self.cached_bytes -= slot.bytes;
        }
        if let Some(place) = slot.place {
            self.segments.release(place.segment, slot.bytes as u64);
        }
    }

    fn slot_index(&self, index: u64) -> Option<usize> {
        let at = usize::try_from(index.checked_sub(self.compacted.index + 1)?).ok()?;
        (at < self.slots.len()).then_some(at)
    }

    fn load(&self, index: u64, slot: &Slot) -> Result<Entry> {
        if let Some(entry) = &slot.entry {
            return Ok(entry.clone());
        }
        let place = slot.place.expect("an entry that is not in memory has a place");
        let encoded = self.segments.read(place.segment, place.offset, slot.bytes)?;
        let entry = record::parse_entry(&encoded, index)?;
        assert_eq!(entry.term, slot.term, "the log changed under a running node");
        Ok(entry)
    }
}

impl Storage for GroupStore {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let Hard { term, vote, commit } = self.hard;
        let hard_state = HardState { term, vote, commit, ..HardState::default() };
        Ok(RaftState { hard_state, conf_state: self.members.clone() })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.compacted.index {
            return Err(StorageError::Compacted.into());
        }
        let limit = max_size.into().unwrap_or(u64::MAX);
        let mut size = 0;
        let mut entries = Vec::new();
        for index in low..high {
            let at = self.slot_index(index).ok_or(StorageError::Unavailable)?;
            let slot = &self.slots[at];
            size += slot.bytes as u64;
            if size > limit && !entries.is_empty() {
                break;
            }
            // A log that cannot be read any more leaves nothing sensible to do but to stop.
            entries.push(self.load(index, slot).unwrap_or_else(|error| panic!("{error}")));
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.compacted.index {
            return Ok(self.compacted.term);
        }
        if index < self.compacted.index {
            return Err(StorageError::Compacted.into());
        }
        let at = self.slot_index(index).ok_or(StorageError::Unavailable)?;
        Ok(self.slots[at].term)
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.compacted.index + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, _request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        Err(StorageError::SnapshotTemporarilyUnavailable.into())
    }
}
