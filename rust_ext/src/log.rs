//! The log of all groups: collects a turn's records in an open block, gives it a place and hands
//! it to the writer. At most one block is on its way, so only the last one can ever be torn;
//! what comes up meanwhile gathers in the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use raft::eraftpb::Entry;

use crate::block;
use crate::disk::Disk;
use crate::errors::{Error, Result};
use crate::record::{self, Checkpoint, Members, Placed, Position};
use crate::recovery::{self, Recovered};
use crate::segment::Segments;
use crate::space::Space;
use crate::store::{Place, Slot};
use crate::writer::{Job, Writer};

/// Room that proposals leave for votes, terms and compaction marks when the disk is full.
const RESERVE_BYTES: u64 = 64 << 10;
/// From this many segments on, what pins the oldest one is written again at the end.
const MOVE_AFTER_SEGMENTS: usize = 4;

/// The groups as the log sees them when it seals a block.
pub trait Stores {
    /// Appends the terms, votes and commits that changed since the last call.
    fn put_hards(&mut self, block: &mut Vec<u8>);
    /// Appends a checkpoint of every group.
    fn put_checkpoints(&self, block: &mut Vec<u8>);
    /// Tells a group where an entry lies.
    fn set_place(&mut self, group: u32, placed: &Placed, place: Place);
}

/// Figures for status.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counters {
    /// Blocks made durable since the start.
    pub blocks: u64,
    /// Bytes of the torn block that recovery removed.
    pub repaired_bytes: u64,
    /// Bytes of good blocks that recovery read.
    pub recovered_bytes: u64,
    /// How long recovery took.
    pub recovery_ms: u64,
}

struct Open {
    block: Vec<u8>,
    places: Vec<(u32, Placed)>,
    is_due: bool,
}

/// State and entries of each group as found on disk; empty for a new log.
pub type Found = Vec<(Checkpoint, VecDeque<Slot>)>;

/// See the top of the file.
pub struct Log {
    segments: Arc<Segments>,
    space: Space,
    secret: u64,
    reserve_bytes: u64,
    group_bytes: u64,
    segment_bytes: u64,
    open: Open,
    /// Segments that can go once the block on its way is durable.
    in_flight: Option<Vec<u64>>,
    promised_bytes: u64,
    is_full: bool,
    refused_bytes: u64,
    /// See [`Counters`].
    pub counters: Counters,
}

impl Log {
    /// Recovers the log in `disk`, or begins one.
    ///
    /// # Errors
    /// `Corrupt`, `Format`, or the disk's.
    pub fn new(
        disk: Arc<dyn Disk>,
        node: u64,
        groups: u32,
        segment_bytes: u64,
        is_manual: bool,
    ) -> Result<(Self, Found)> {
        let begun = Instant::now();
        let segments = Arc::new(Segments::default());
        let recovered = recovery::recover(&disk, &segments, node, groups)?;
        let Recovered { start, groups: found, repaired_bytes, recovered_bytes } = recovered;
        let secret = start.identity.secret;
        let writer = if is_manual { Writer::manual } else { Writer::threaded }(disk.clone())?;
        let mut space = Space::new(disk, writer, segments.clone(), start, segment_bytes)?;
        space.work_ahead();
        let group_bytes = u64::from(groups) * record::GROUP_OVERHEAD_BYTES as u64;
        let recovery_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let log = Self {
            segments,
            space,
            secret,
            reserve_bytes: RESERVE_BYTES.min(segment_bytes / 4) + group_bytes,
            group_bytes,
            segment_bytes,
            open: Open::new(),
            in_flight: None,
            promised_bytes: 0,
            is_full: false,
            refused_bytes: 0,
            counters: Counters {
                repaired_bytes,
                recovered_bytes,
                recovery_ms,
                ..Default::default()
            },
        };
        Ok((log, found))
    }

    /// The segments, for the groups' stores.
    #[must_use]
    pub fn segments(&self) -> Arc<Segments> {
        self.segments.clone()
    }

    /// The descriptor that becomes readable when a block is durable.
    #[must_use]
    pub fn writer(&self) -> &Writer {
        self.space.writer()
    }

    /// Sets how large the checkpoint of all groups can be.
    pub fn set_checkpoint_bytes(&mut self, bytes: usize) {
        self.space.set_opening_bytes(bytes);
    }

    /// Promises that an entry of this many encoded bytes can be written with the next block.
    ///
    /// # Errors
    /// `Full`; other errors are the disk's.
    pub fn promise(&mut self, bytes: usize) -> Result<()> {
        let wanted = self.promised_bytes + bytes as u64;
        if let Err(error) = self.ensure(wanted) {
            self.refused_bytes = bytes as u64;
            return Err(error);
        }
        self.promised_bytes = wanted;
        Ok(())
    }

    /// True when the last attempt to find room failed; looks again.
    pub fn is_full(&mut self) -> bool {
        self.is_full && self.ensure(self.promised_bytes + self.refused_bytes).is_err()
    }

    /// Adds a group's new entries to the open block and redeems their promise.
    pub fn append(&mut self, group: u32, entries: &[Entry]) {
        let placed = record::put_entries(&mut self.open.block, group, entries);
        let bytes: usize = placed.iter().map(|entry| entry.bytes).sum();
        self.promised_bytes = self.promised_bytes.saturating_sub(bytes as u64);
        self.open.places.extend(placed.into_iter().map(|entry| (group, entry)));
    }

    /// Adds a compaction mark; it can wait for a block that is due.
    pub fn put_compacted(&mut self, group: u32, upto: Position) {
        record::put_compacted(&mut self.open.block, group, upto);
    }

    /// Adds a new configuration; entries that brought it may be compacted only behind it.
    pub fn put_members(&mut self, group: u32, members: &Members) {
        record::put_members(&mut self.open.block, group, members);
    }

    /// Adds that a group's entries are gone and where the next one follows.
    pub fn put_reset(&mut self, group: u32, to: Position) {
        record::put_reset(&mut self.open.block, group, to);
    }

    /// The open block must become durable.
    pub fn set_due(&mut self) {
        self.open.is_due = true;
    }

    /// All entries that were accepted are in the open block.
    pub fn settle(&mut self) {
        self.promised_bytes = 0;
    }

    /// True while a block is on its way or due.
    #[must_use]
    pub fn is_persisting(&self) -> bool {
        self.in_flight.is_some() || self.open.is_due
    }

    /// True while a block is on its way.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// A segment whose few needed entries are worth writing again so that it can go. There is room
    /// for them beside everything that was promised.
    pub fn worth_moving(&mut self) -> Option<u64> {
        let is_turn = self.in_flight.is_none() && (self.open.is_due || self.is_full);
        let segments_max = if self.is_full { 1 } else { MOVE_AFTER_SEGMENTS };
        if !is_turn || self.segments.count() <= segments_max {
            return None;
        }
        let (oldest, live_bytes) = self.segments.oldest()?;
        if live_bytes == 0 || oldest >= self.space.active() {
            return None;
        }
        // A run of entries has a header that is no larger than an entry's.
        self.has_room_to_move(2 * live_bytes).then_some(oldest)
    }

    /// On a full disk a part of the reserve is well spent on what gives back a whole segment.
    fn has_room_to_move(&mut self, bytes: u64) -> bool {
        if !self.is_full {
            let is_cheap = bytes <= self.segment_bytes / 4;
            return is_cheap && self.ensure(self.promised_bytes + bytes).is_ok();
        }
        let wanted = self.open.bytes() + self.group_bytes + self.promised_bytes + bytes;
        bytes <= self.reserve_bytes / 4 && self.space.ensure(wanted).is_ok()
    }

    /// Writes entries again that are in the log already.
    pub fn move_entries(&mut self, group: u32, entries: &[Entry]) {
        let placed = record::put_moved(&mut self.open.block, group, entries);
        self.open.places.extend(placed.into_iter().map(|entry| (group, entry)));
    }

    /// Gives the open block to the writer if it is due and nothing is on its way; when `here`, it
    /// may be this thread's next look at [`Self::poll`] that makes it durable.
    ///
    /// # Errors
    /// The disk's; a full disk only delays the block.
    pub fn hand_over(&mut self, stores: &mut impl Stores, here: bool) -> Result<bool> {
        // On a full disk a compaction mark is what makes room: it must not wait for entries.
        let is_due = self.open.is_due || (self.is_full && !self.open.is_empty());
        if self.in_flight.is_some() || !is_due {
            return Ok(false);
        }
        self.seal(stores, here)
    }

    fn seal(&mut self, stores: &mut impl Stores, here: bool) -> Result<bool> {
        stores.put_hards(&mut self.open.block);
        let bytes = self.open.bytes();
        match self.space.ensure(bytes) {
            Ok(()) => {}
            Err(Error::Full) => {
                self.is_full = true;
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let opens_segment = self.space.choose(bytes);
        let mut open = std::mem::replace(&mut self.open, Open::new());
        let mut shift = 0;
        if opens_segment {
            shift = open.put_in_front(|block| stores.put_checkpoints(block));
        }
        let spot = self.space.take(open.bytes());
        for (group, placed) in &open.places {
            let offset = spot.offset + (placed.offset + shift) as u64;
            stores.set_place(*group, placed, Place { segment: spot.segment, offset });
        }
        self.in_flight = Some(self.segments.dead_below(self.space.active()));
        let (secret, sequence) = (self.secret, self.space.sequence - 1);
        let (file, offset, block) = (spot.file, spot.offset, open.block);
        let job = Job::Write { file, offset, block, secret, sequence };
        self.space.writer_mut().give_block(job, here);
        self.space.work_ahead();
        Ok(true)
    }

    /// True once for every block that became durable.
    ///
    /// # Errors
    /// The disk's.
    pub fn poll(&mut self) -> Result<bool> {
        self.space.writer_mut().finish_begun();
        if !self.space.poll() {
            return Ok(false);
        }
        self.counters.blocks += 1;
        for number in self.in_flight.take().unwrap_or_default() {
            self.space.retire(number)?;
        }
        Ok(true)
    }

    /// Makes everything durable, also what could wait, and ends the thread.
    ///
    /// # Errors
    /// The disk's.
    pub fn close(&mut self, stores: &mut impl Stores) -> Result<()> {
        loop {
            while self.in_flight.is_some() {
                self.wait()?;
                self.poll()?;
            }
            stores.put_hards(&mut self.open.block);
            if self.open.is_empty() || !self.seal(stores, false)? {
                break;
            }
        }
        self.space.writer_mut().stop();
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        let writer = self.space.writer();
        if writer.is_manual() {
            writer.run_write()?;
        } else {
            writer.wait_done().into_iter().for_each(|done| writer.put_back(done));
        }
        Ok(())
    }

    fn ensure(&mut self, wanted: u64) -> Result<()> {
        let bytes = self.open.bytes() + self.group_bytes + wanted + self.reserve_bytes;
        let outcome = self.space.ensure(bytes);
        self.is_full = matches!(outcome, Err(Error::Full));
        outcome
    }
}

impl Open {
    fn new() -> Self {
        Self { block: block::open(), places: Vec::new(), is_due: false }
    }

    fn is_empty(&self) -> bool {
        self.block.len() == block::HEADER_BYTES
    }

    fn bytes(&self) -> u64 {
        block::size(self.block.len() - block::HEADER_BYTES) as u64
    }

    /// Answers by how much the records moved.
    fn put_in_front(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> usize {
        let mut block = block::open();
        fill(&mut block);
        let shift = block.len() - block::HEADER_BYTES;
        block.extend_from_slice(&self.block[block::HEADER_BYTES..]);
        self.block = block;
        shift
    }
}
