//! Where the next block goes, and the promise that there is room for it. Room is allocated before
//! it is promised, so an accepted proposal can always be written.

use std::sync::Arc;

use crate::block::ALIGNMENT;
use crate::disk::{Disk, File};
use crate::errors::{Error, Result};
use crate::segment::{self, FIRST_BLOCK, Header, Identity, Segments};
use crate::writer::{Done, Job, Writer};

/// A segment grows in steps of this size, so an idle node uses little disk.
const STEP_BYTES: u64 = 8 << 20;
/// How far allocated space is overwritten ahead of the blocks.
const ZERO_BYTES: u64 = 1 << 20;
/// Used segments that are kept for reuse.
const SPARES_MAX: usize = 2;

/// A segment that takes blocks.
pub struct Tail {
    /// Its number.
    pub number: u64,
    /// Its file.
    pub file: Arc<dyn File>,
    /// Where the next block begins.
    pub end: u64,
    /// Writes below this cannot run out of space.
    pub allocated: u64,
    /// Bytes below this were written before.
    pub zeroed: u64,
}

enum Next {
    None,
    /// The thread is at it; with the file that it reuses.
    Pending(Option<String>),
    Ready(Tail),
}

/// Where a block was put.
pub struct Spot {
    /// The file.
    pub file: Arc<dyn File>,
    /// The segment's number.
    pub segment: u64,
    /// Where the block begins.
    pub offset: u64,
}

/// See the top of the file.
pub struct Space {
    disk: Arc<dyn Disk>,
    identity: Identity,
    segments: Arc<Segments>,
    segment_bytes: u64,
    /// Upper bound of what a segment's first block carries besides its records.
    opening_bytes: u64,
    active: Tail,
    next: Next,
    spares: Vec<String>,
    writer: Writer,
    /// Sequence of the next block.
    pub sequence: u64,
}

/// What a [`Space`] starts from.
pub struct Start {
    /// To whom the log belongs.
    pub identity: Identity,
    /// The segment to go on with; `None` for a new log.
    pub active: Option<Tail>,
    /// Files that can be reused.
    pub spares: Vec<String>,
    /// Sequence of the next block.
    pub sequence: u64,
}

impl Tail {
    /// A file that was copied can have holes: its length alone is no promise of space.
    fn reserve(mut self) -> Self {
        if self.file.allocate(self.end, self.allocated).is_err() {
            self.allocated = self.end;
        }
        self
    }

    fn is_fresh(&self) -> bool {
        self.end == FIRST_BLOCK
    }
}

impl Space {
    /// Goes on where recovery ended.
    ///
    /// # Errors
    /// The disk's.
    pub fn new(
        disk: Arc<dyn Disk>,
        writer: Writer,
        segments: Arc<Segments>,
        start: Start,
        segment_bytes: u64,
    ) -> Result<Self> {
        let Start { identity, active, spares, sequence } = start;
        let active = match active {
            Some(tail) => tail.reserve(),
            None => first_segment(disk.as_ref(), &segments, identity, segment_bytes)?,
        };
        let next = Next::None;
        let opening_bytes = 0;
        Ok(Self {
            disk,
            identity,
            segments,
            segment_bytes,
            opening_bytes,
            active,
            next,
            spares,
            writer,
            sequence,
        })
    }

    /// The thread's side.
    #[must_use]
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// The thread's side, to give it blocks and to stop it.
    pub fn writer_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Number of the segment that takes blocks.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.active.number
    }

    /// Sets what the first block of a segment carries besides its records. Both together are padded
    /// once, by no more than each of them alone.
    pub fn set_opening_bytes(&mut self, bytes: usize) {
        self.opening_bytes = bytes.next_multiple_of(ALIGNMENT) as u64;
    }

    /// Makes sure that a block of this size has room.
    ///
    /// # Errors
    /// `Full` when it has none; other errors are the disk's.
    pub fn ensure(&mut self, bytes: u64) -> Result<()> {
        if self.fits(&self.active, bytes) {
            return Ok(());
        }
        let end = self.end_with(&self.active, bytes);
        if end <= self.segment_bytes {
            match extend(&mut self.active, end, self.segment_bytes) {
                Err(Error::Full) => {}
                outcome => return outcome,
            }
        }
        if self.fits_next(bytes) { Ok(()) } else { self.ensure_next(bytes) }
    }

    /// Takes the room for a block that [`Self::ensure`] accepted; true when it opens a segment.
    #[must_use]
    pub fn choose(&mut self, bytes: u64) -> bool {
        if !self.fits(&self.active, bytes)
            && let Next::Ready(tail) = std::mem::replace(&mut self.next, Next::None)
        {
            self.active = tail;
        }
        assert!(self.fits(&self.active, bytes), "room was ensured");
        self.active.is_fresh()
    }

    /// Moves the end of the log behind a block of exactly this size.
    #[must_use]
    pub fn take(&mut self, bytes: u64) -> Spot {
        let tail = &mut self.active;
        let spot = Spot { file: tail.file.clone(), segment: tail.number, offset: tail.end };
        tail.end += bytes;
        assert!(tail.end <= tail.allocated, "a block stays inside its room");
        self.sequence += 1;
        spot
    }

    /// Lets the thread do what the next blocks will be glad of.
    pub fn work_ahead(&mut self) {
        if self.writer.is_manual() {
            return;
        }
        zero_ahead(&self.writer, &mut self.active);
        let is_due = self.active.end > self.segment_bytes / 2;
        if is_due && matches!(self.next, Next::None) && self.has_free(STEP_BYTES) {
            let (header, spare, length) = self.plan_next(0);
            self.next = Next::Pending(spare.clone());
            self.writer.give(Job::Prepare { header, spare, length });
        }
    }

    /// What the thread has finished; true when a block became durable.
    #[must_use]
    pub fn poll(&mut self) -> bool {
        let done = self.writer.take_done();
        self.digest(done)
    }

    /// Keeps a segment that nobody needs for reuse, or removes it.
    ///
    /// # Errors
    /// The disk's.
    pub fn retire(&mut self, number: u64) -> Result<()> {
        let Some(file) = self.segments.remove(number) else { return Ok(()) };
        let failed = |error| Error::io(format!("retire {}", segment::name(number)), error);
        let length = file.length().map_err(failed)?;
        let spare = segment::spare_name(number);
        // A segment that recovery set aside has the same name as one that took its number later.
        let is_welcome = self.spares.len() < SPARES_MAX && !self.spares.contains(&spare);
        if length == self.segment_bytes && is_welcome {
            self.disk.rename(&segment::name(number), &spare).map_err(failed)?;
            self.spares.push(spare);
            return Ok(());
        }
        self.disk.remove(&segment::name(number)).map_err(failed)
    }

    fn digest(&mut self, done: Vec<Done>) -> bool {
        let mut is_written = false;
        for item in done {
            match item {
                Done::Written => is_written = true,
                Done::Prepared(outcome) => self.take_prepared(outcome),
            }
        }
        is_written
    }

    fn take_prepared(&mut self, outcome: Result<(Arc<dyn File>, u64)>) {
        let Next::Pending(spare) = std::mem::replace(&mut self.next, Next::None) else { return };
        match outcome {
            Ok(made) => self.next = Next::Ready(self.adopt(made, spare.is_some())),
            Err(_) => self.spares.extend(spare),
        }
    }

    fn adopt(&self, (file, allocated): (Arc<dyn File>, u64), is_recycled: bool) -> Tail {
        let number = self.active.number + 1;
        self.segments.add(number, file.clone());
        let zeroed = if is_recycled { allocated } else { FIRST_BLOCK };
        Tail { number, file, end: FIRST_BLOCK, allocated, zeroed }
    }

    fn end_with(&self, tail: &Tail, bytes: u64) -> u64 {
        tail.end + bytes + if tail.is_fresh() { self.opening_bytes } else { 0 }
    }

    fn fits(&self, tail: &Tail, bytes: u64) -> bool {
        self.end_with(tail, bytes) <= tail.allocated
    }

    fn fits_next(&self, bytes: u64) -> bool {
        matches!(&self.next, Next::Ready(tail) if self.fits(tail, bytes))
    }

    fn has_free(&self, bytes: u64) -> bool {
        !self.spares.is_empty() || self.disk.free_bytes().is_ok_and(|free| free >= bytes)
    }

    fn ensure_next(&mut self, bytes: u64) -> Result<()> {
        let mut is_written = false;
        while matches!(self.next, Next::Pending(_)) {
            let done = self.writer.wait_done();
            is_written |= self.digest(done);
        }
        if is_written {
            self.writer.put_back(Done::Written);
        }
        let end = FIRST_BLOCK + self.opening_bytes + bytes;
        if let Next::Ready(tail) = &mut self.next {
            return if end <= tail.allocated {
                Ok(())
            } else {
                extend(tail, end, self.segment_bytes.max(end))
            };
        }
        let (header, spare, length) = self.plan_next(end);
        if spare.is_none() && !self.has_free(length) {
            return Err(Error::Full);
        }
        match segment::prepare(self.disk.as_ref(), &header, spare.as_deref(), length) {
            Ok(made) => self.next = Next::Ready(self.adopt(made, spare.is_some())),
            Err(error) if error.is_no_space() => {
                self.spares.extend(spare);
                return Err(Error::Full);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn plan_next(&mut self, end: u64) -> (Header, Option<String>, u64) {
        let spare = self.spares.pop();
        let is_recycled = spare.is_some();
        let number = self.active.number + 1;
        let header = Header { identity: self.identity, number, least: self.sequence, is_recycled };
        (header, spare, STEP_BYTES.min(self.segment_bytes).max(end))
    }
}

fn first_segment(
    disk: &dyn Disk,
    segments: &Segments,
    identity: Identity,
    segment_bytes: u64,
) -> Result<Tail> {
    let header = Header { identity, number: 1, least: 1, is_recycled: false };
    let length = STEP_BYTES.min(segment_bytes);
    let (file, allocated) = segment::prepare(disk, &header, None, length)?;
    segments.add(1, file.clone());
    Ok(Tail { number: 1, file, end: FIRST_BLOCK, allocated, zeroed: FIRST_BLOCK })
}

fn extend(tail: &mut Tail, end: u64, limit: u64) -> Result<()> {
    let generous = end.next_multiple_of(STEP_BYTES).min(limit).max(end);
    for length in [generous, end] {
        match tail.file.allocate(tail.allocated, length) {
            Ok(()) => {
                tail.allocated = length;
                return Ok(());
            }
            Err(error) => {
                let error = Error::io(format!("extend {}", segment::name(tail.number)), error);
                if !error.is_no_space() {
                    return Err(error);
                }
            }
        }
    }
    Err(Error::Full)
}

fn zero_ahead(writer: &Writer, tail: &mut Tail) {
    if tail.zeroed >= tail.allocated.min(tail.end + ZERO_BYTES / 2) {
        return;
    }
    let from = tail.zeroed.max(tail.end);
    let to = tail.allocated.min(from + ZERO_BYTES);
    writer.give(Job::Zero { file: tail.file.clone(), from, to });
    tail.zeroed = to;
}
