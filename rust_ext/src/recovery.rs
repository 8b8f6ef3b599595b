//! What a start finds in the directory: every durable block, at most one torn one at the end, and
//! otherwise a refusal that names file and offset. Only the torn block is ever changed.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::block;
use crate::disk::{Disk, File};
use crate::errors::{Error, Result};
use crate::record::{self, Checkpoint, Placed, Position, Record};
use crate::segment::{self, FIRST_BLOCK, Header, Identity, Segments};
use crate::space::{Start, Tail};
use crate::store::{Place, Slot};
use crate::writer::zero;

const FIRST: usize = 64;

/// What the log held.
pub struct Recovered {
    /// Where to go on.
    pub start: Start,
    /// State and entries of each group; empty for a new log.
    pub groups: Vec<(Checkpoint, VecDeque<Slot>)>,
    /// Bytes of the torn block that were removed.
    pub repaired_bytes: u64,
    /// Bytes of good blocks.
    pub recovered_bytes: u64,
}

struct Loaded {
    header: Header,
    file: Arc<dyn File>,
    bytes: Vec<u8>,
}

struct Scan<'a> {
    disk: &'a dyn Disk,
    node: u64,
    images: Vec<Option<Image>>,
    expected: Option<u64>,
    recovered_bytes: u64,
}

/// One group while its records are replayed; `None` is an entry in a segment that is gone.
struct Image {
    state: Checkpoint,
    slots: VecDeque<Option<Slot>>,
    /// The block that began this image is being replayed. Its checkpoint was made last and put in
    /// front, so the records behind it only say where entries lie.
    is_opening: bool,
}

/// Reads the whole log.
///
/// # Errors
/// `Corrupt`, `Format`, or the disk's.
pub fn recover(
    disk: &Arc<dyn Disk>,
    segments: &Segments,
    node: u64,
    groups: u32,
) -> Result<Recovered> {
    let (numbers, spares) = take_stock(disk.as_ref())?;
    let images = (0..groups).map(|_| None).collect();
    let mut scan = Scan { disk: disk.as_ref(), node, images, expected: None, recovered_bytes: 0 };
    let Some(first) = numbers.first() else {
        let secret = disk.secret().map_err(|error| Error::io("read a random number", error))?;
        let identity = Identity { node, groups, secret };
        let start = Start { identity, active: None, spares, sequence: 1 };
        return Ok(Recovered { start, groups: Vec::new(), repaired_bytes: 0, recovered_bytes: 0 });
    };
    let mut current = scan.load(*first)?;
    let (mut end, mut rest) = (0, &numbers[1..]);
    loop {
        end = scan.replay(&current, end.max(FIRST))?;
        segments.add(current.header.number, current.file.clone());
        let Some((number, after)) = rest.split_first() else { break };
        let next = scan.load(*number)?;
        if !scan.continues_in(&next, &current) {
            for number in rest {
                scan.refuse_survivors(&current, end, &scan.load(*number)?, FIRST)?;
            }
            break;
        }
        (current, rest, end) = (next, after, FIRST);
    }
    scan.refuse_survivors(&current, end, &current, end)?;
    let sequence = scan.expected.unwrap_or(current.header.least);
    let repaired_bytes = repair(&current, end, sequence)?;
    let spares = scan.set_aside(rest, spares)?;
    let start = Start {
        identity: current.header.identity,
        active: Some(current.into_tail(end)),
        spares,
        sequence,
    };
    let recovered_bytes = scan.recovered_bytes;
    Ok(Recovered { start, groups: scan.finish()?, repaired_bytes, recovered_bytes })
}

/// Segment numbers without a gap, and spare files; what an interrupted preparation left is removed.
fn take_stock(disk: &dyn Disk) -> Result<(Vec<u64>, Vec<String>)> {
    let names = disk.list().map_err(|error| Error::io(format!("list {}", disk.label()), error))?;
    let mut spares: Vec<String> = Vec::new();
    for name in &names {
        match name.rsplit_once('.') {
            Some((_, "tmp")) => {
                disk.remove(name).map_err(|error| Error::io(format!("remove {name}"), error))?;
            }
            Some((_, "spare")) => spares.push(name.clone()),
            _ => {}
        }
    }
    let numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
    for pair in numbers.windows(2) {
        if pair[1] != pair[0] + 1 {
            let (missing, label) = (segment::name(pair[0] + 1), disk.label());
            let text = format!("{label}: segment {missing} is missing; {}", segment::advice());
            return Err(Error::Corrupt(text));
        }
    }
    if let (true, Some(spare)) = (numbers.is_empty(), spares.first()) {
        let (label, advice) = (disk.label(), segment::advice());
        let text = format!("{label}: {spare} is there but all segments are gone; {advice}");
        return Err(Error::Corrupt(text));
    }
    Ok((numbers, spares))
}

impl Loaded {
    fn into_tail(self, end: usize) -> Tail {
        let allocated = self.bytes.len() as u64;
        let is_used = self.header.is_recycled;
        let zeroed = if is_used { allocated } else { end as u64 };
        Tail { number: self.header.number, file: self.file, end: end as u64, allocated, zeroed }
    }
}

impl Scan<'_> {
    fn load(&self, number: u64) -> Result<Loaded> {
        let name = segment::name(number);
        let path = format!("{}/{name}", self.disk.label());
        let failed = |error| Error::io(format!("read {path}"), error);
        let file = self.disk.open(&name).map_err(failed)?;
        let length = usize::try_from(file.length().map_err(failed)?).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length];
        let got = file.read_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(got);
        let header = Header::decode(&bytes, &path)?;
        if header.number != number {
            let text = format!("{path} holds segment {}; {}", header.number, segment::advice());
            return Err(Error::Corrupt(text));
        }
        let groups = u32::try_from(self.images.len()).unwrap_or(u32::MAX);
        if (header.identity.node, header.identity.groups) != (self.node, groups) {
            let text = format!(
                "{path} belongs to node {} with {} groups, but this is node {} with {groups}",
                header.identity.node, header.identity.groups, self.node
            );
            return Err(Error::Format(text));
        }
        Ok(Loaded { header, file, bytes })
    }

    /// Applies all good blocks from `offset` on; answers where the first other thing is.
    fn replay(&mut self, from: &Loaded, mut offset: usize) -> Result<usize> {
        while let Some(block) = block::read(&from.bytes, offset, from.header.identity.secret) {
            let is_next = match self.expected {
                Some(expected) => block.sequence == expected,
                None => block.sequence >= from.header.least,
            };
            if !is_next {
                break;
            }
            for (group, record) in record::parse(&from.bytes, block.body, block.body_end)? {
                self.apply(from.header.number, group, record)?;
            }
            self.images.iter_mut().flatten().for_each(|image| image.is_opening = false);
            self.expected = Some(block.sequence + 1);
            self.recovered_bytes += (block.end - offset) as u64;
            offset = block.end;
        }
        Ok(offset)
    }

    /// The writer leaves the rest of a segment unused when a block does not fit.
    fn continues_in(&self, next: &Loaded, current: &Loaded) -> bool {
        let first = block::read(&next.bytes, FIRST, next.header.identity.secret);
        let expected = self.expected.unwrap_or(current.header.least);
        first.is_some_and(|block| block.sequence == expected)
    }

    /// A good block behind the end of the log shows that what ends the log is damage.
    fn refuse_survivors(
        &self,
        at: &Loaded,
        end: usize,
        inside: &Loaded,
        from: usize,
    ) -> Result<()> {
        let least = self.expected.unwrap_or(at.header.least);
        let secret = at.header.identity.secret;
        let Some((offset, block)) = block::find_survivor(&inside.bytes, from, secret, least) else {
            return Ok(());
        };
        let (label, name) = (self.disk.label(), segment::name(at.header.number));
        let text = format!(
            "{label}/{name}: the block at offset {end} is damaged, yet block {} at offset \
             {offset} of {} is good; {}",
            block.sequence,
            segment::name(inside.header.number),
            segment::advice()
        );
        Err(Error::Corrupt(text))
    }

    /// Segments that were made ready and never used become spares, the last one first: a crash in
    /// between must not leave a gap.
    fn set_aside(&self, unused: &[u64], mut spares: Vec<String>) -> Result<Vec<String>> {
        for number in unused.iter().rev() {
            let (name, spare) = (segment::name(*number), segment::spare_name(*number));
            let failed = |error| Error::io(format!("set {name} aside"), error);
            if spares.contains(&spare) {
                self.disk.remove(&name).map_err(failed)?;
            } else {
                self.disk.rename(&name, &spare).map_err(failed)?;
                spares.push(spare);
            }
        }
        Ok(spares)
    }

    fn apply(&mut self, segment: u64, group: u32, record: Record) -> Result<()> {
        let Some(image) = self.images.get_mut(group as usize) else {
            return Err(Error::Format(format!("the log holds group {group}, which is not ours")));
        };
        match (record, image) {
            (Record::Checkpoint(state), image @ None) => *image = Some(Image::new(state)),
            (record, Some(image)) => return image.apply(segment, group, record),
            (_, None) => return Err(missing(group, 1)),
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<(Checkpoint, VecDeque<Slot>)>> {
        if self.expected.is_none() {
            return Ok(Vec::new());
        }
        let mut groups = Vec::new();
        for (group, image) in (0..).zip(self.images) {
            let image = image.ok_or_else(|| missing(group, 1))?;
            let mut slots = VecDeque::with_capacity(image.slots.len());
            for (index, slot) in (image.state.compacted.index + 1..).zip(image.slots) {
                slots.push_back(slot.ok_or_else(|| missing(group, index))?);
            }
            groups.push((image.state, slots));
        }
        Ok(groups)
    }
}

fn missing(group: u32, index: u64) -> Error {
    let advice = segment::advice();
    let text = format!("entry {index} of group {group} is in no segment: a file is gone; {advice}");
    Error::Corrupt(text)
}

fn repair(last: &Loaded, end: usize, sequence: u64) -> Result<u64> {
    let torn = torn_bytes(last, end, sequence);
    if torn > 0 {
        let stop = (end + torn) as u64;
        let cleaned = zero(last.file.as_ref(), end as u64, stop).and_then(|()| last.file.sync());
        let name = segment::name(last.header.number);
        cleaned.map_err(|error| Error::io(format!("repair the end of {name}"), error))?;
    }
    Ok(torn as u64)
}

/// How much of a block that never became durable lies at the end.
fn torn_bytes(last: &Loaded, end: usize, sequence: u64) -> usize {
    let rest = &last.bytes[end.min(last.bytes.len())..];
    if let Some((length, found)) = block::claim(&last.bytes, end)
        && found == sequence
    {
        return block::size(length as usize).min(rest.len());
    }
    if last.header.is_recycled {
        return 0;
    }
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

impl Image {
    fn new(state: Checkpoint) -> Self {
        let live = state.last.saturating_sub(state.compacted.index);
        let slots = (0..live).map(|_| None).collect();
        Self { state, slots, is_opening: true }
    }

    fn apply(&mut self, segment: u64, group: u32, record: Record) -> Result<()> {
        match record {
            Record::Hard(hard) => self.state.hard = hard,
            Record::Members(members) => self.state.members = members,
            Record::Checkpoint(state) => self.state.members = state.members,
            Record::Moved(entries) => self.relocate(segment, &entries),
            Record::Entries(entries) if self.is_opening => self.relocate(segment, &entries),
            Record::Compacted(_) | Record::Reset(_) if self.is_opening => {}
            Record::Entries(entries) => return self.append(segment, group, &entries),
            Record::Compacted(upto) => self.compact(upto),
            Record::Reset(to) => {
                self.slots.clear();
                self.state.compacted = to;
            }
        }
        Ok(())
    }

    fn compact(&mut self, upto: Position) {
        let count = upto.index.saturating_sub(self.state.compacted.index);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.slots.len());
        self.slots.drain(..count);
        self.state.compacted = upto;
    }

    fn append(&mut self, segment: u64, group: u32, entries: &[Placed]) -> Result<()> {
        let next = self.state.compacted.index + 1;
        let dead = entries.iter().take_while(|entry| entry.position.index < next).count();
        let entries = &entries[dead..];
        let Some(first) = entries.first() else { return Ok(()) };
        let keep = first.position.index.checked_sub(next).and_then(|at| usize::try_from(at).ok());
        match keep {
            Some(keep) if keep <= self.slots.len() => self.slots.truncate(keep),
            _ => return Err(missing(group, next + self.slots.len() as u64)),
        }
        self.slots.extend(entries.iter().map(|entry| Some(slot(segment, entry))));
        Ok(())
    }

    fn relocate(&mut self, segment: u64, entries: &[Placed]) {
        for entry in entries {
            let at = entry.position.index.checked_sub(self.state.compacted.index + 1);
            let at = at.and_then(|at| usize::try_from(at).ok());
            let Some(target) = at.and_then(|at| self.slots.get_mut(at)) else { continue };
            let is_same = |slot: &Slot| slot.term == entry.position.term;
            if self.is_opening || target.as_ref().is_none_or(is_same) {
                *target = Some(slot(segment, entry));
            }
        }
    }
}

fn slot(segment: u64, entry: &Placed) -> Slot {
    let place = Place { segment, offset: entry.offset as u64 };
    Slot::stored(entry, place)
}

const _: () = assert!(FIRST as u64 == FIRST_BLOCK);

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, count: u64) -> Vec<Placed> {
        let placed = |index| {
            let position = Position { index, term: 2 };
            Placed { position, offset: 0, bytes: 20, is_change: false }
        };
        (first..first + count).map(placed).collect()
    }

    #[test]
    fn the_checkpoint_of_a_segment_counts_before_the_records_of_its_block() {
        let at = |index| Position { index, term: 2 };
        let state = Checkpoint { compacted: at(10), last: 14, ..Checkpoint::default() };
        let histories = [
            vec![Record::Compacted(at(5)), Record::Compacted(at(10)), Record::Entries(run(14, 1))],
            vec![Record::Entries(run(18, 3)), Record::Reset(at(10)), Record::Entries(run(11, 4))],
        ];
        for history in histories {
            let mut image = Image::new(state.clone());
            for record in history {
                image.apply(7, 0, record).unwrap();
            }
            image.apply(7, 0, Record::Moved(run(11, 3))).unwrap();
            assert_eq!(image.state.compacted, at(10));
            assert!(image.slots.len() == 4 && image.slots.iter().all(Option::is_some));
        }
    }

    #[test]
    fn a_reset_leaves_nothing_of_what_was_before() {
        let mut image = Image::new(Checkpoint::default());
        image.is_opening = false;
        image.apply(7, 0, Record::Entries(run(1, 9))).unwrap();
        image.apply(7, 0, Record::Reset(Position { index: 5, term: 3 })).unwrap();
        assert!(image.slots.is_empty());
        image.apply(7, 0, Record::Entries(run(6, 2))).unwrap();
        assert_eq!((image.state.compacted.index, image.slots.len()), (5, 2));
    }
}
