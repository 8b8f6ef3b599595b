//! One group's side of the log: what raft-rs asks its storage for. Recent entries are kept in
//! memory, older ones are read from their segment. Nothing here writes, and which members follow
//! from an entry is decided in `members.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use raft::eraftpb::{Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use crate::errors::Result;
use crate::members;
use crate::record::{self, Checkpoint, Hard, Members, Placed, Position};
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
    /// It changes the members.
    pub is_change: bool,
    entry: Option<Entry>,
}

impl Slot {
    /// An entry found on disk.
    #[must_use]
    pub fn stored(placed: &Placed, place: Place) -> Self {
        let Placed { position, bytes, is_change, .. } = *placed;
        Self { term: position.term, bytes, place: Some(place), is_change, entry: None }
    }
}

/// See the top of the file.
pub struct GroupStore {
    segments: Arc<Segments>,
    hard: Hard,
    /// The configuration in force last, before it those that a snapshot of an earlier state needs.
    members: Vec<Members>,
    /// What this node offers to peers that need entries which are gone.
    snapshot: Option<Snapshot>,
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
        let (members, snapshot, cached_bytes) = (vec![members], None, 0);
        Self { segments, hard, members, snapshot, compacted, slots, cached_bytes, cached_after }
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

    /// The configuration in force.
    #[must_use]
    pub fn members(&self) -> &Members {
        self.members.last().expect("there is always a configuration, if only an empty one")
    }

    /// The configuration that was in force at an index that is not compacted.
    #[must_use]
    pub fn members_at(&self, index: u64) -> Option<&Members> {
        self.members.iter().rev().find(|members| members.index <= index)
    }

    /// Takes over a new configuration.
    pub fn set_members(&mut self, members: Members) {
        assert!(members.index > self.members().index, "configurations come in order");
        self.members.push(members);
    }

    /// Takes over what entries up to `applied` did to the members: the state machine can know of
    /// them before the log has noted their outcome.
    ///
    /// # Errors
    /// The disk's.
    pub fn catch_up_members(&mut self, applied: u64) -> Result<()> {
        let known = self.members().index.max(self.compacted.index);
        for index in known + 1..=applied.min(self.last()) {
            let slot = &self.slots[self.slot_index(index).expect("the entry is live")];
            if slot.is_change
                && let Some(state) = members::after(&self.members().state, &self.load(index, slot)?)
            {
                self.set_members(Members { index, state });
            }
        }
        Ok(())
    }

    /// What this node offers to peers that need entries which are gone.
    #[must_use]
    pub fn offered(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref()
    }

    /// Replaces or drops it.
    pub fn set_offered(&mut self, snapshot: Option<Snapshot>) {
        self.snapshot = snapshot;
    }

    /// True when the snapshot is of use to this peer: it is a member by then. That entries can take
    /// over is sure, since they are kept.
    #[must_use]
    pub fn can_offer(&self, peer: u64) -> bool {
        let snapshot = self.snapshot.as_ref();
        snapshot.is_some_and(|it| members::has(it.get_metadata().get_conf_state(), peer))
    }

    /// A snapshot replaced the state: nothing that was in the log is left.
    pub fn reset(&mut self, to: Position, members: Members) {
        while let Some(slot) = self.slots.pop_front() {
            self.forget(Some(slot));
        }
        self.compacted = to;
        self.cached_after = to.index;
        self.members = vec![members];
        self.snapshot = None;
    }

    /// All of the group except its entries.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            hard: self.hard,
            compacted: self.compacted,
            last: self.last(),
            members: self.members().clone(),
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
            let (term, is_change) = (entry.term, record::is_change(entry));
            let entry = Some(entry.clone());
            self.slots.push_back(Slot { term, bytes, place: None, is_change, entry });
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
        let needed = self.members.iter().rposition(|members| members.index <= index);
        self.members.drain(..needed.unwrap_or(0));
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
        Ok(RaftState { hard_state, conf_state: self.members().state.clone() })
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

    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        match &self.snapshot {
            Some(snapshot)
                if snapshot.get_metadata().index >= request_index && self.can_offer(to) =>
            {
                Ok(snapshot.clone())
            }
            _ => Err(StorageError::SnapshotTemporarilyUnavailable.into()),
        }
    }
}
