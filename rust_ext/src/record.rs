//! The records inside a block and their bytes. Little-endian, fixed widths, nothing optional:
//! every change of meaning needs a new version in the segment header.

use bytes::Bytes;
use raft::eraftpb::{ConfState, Entry, EntryType};

use crate::errors::{Error, Result};

/// Bytes of an entry's own header.
pub const ENTRY_HEADER_BYTES: usize = 17;
/// Upper bound of what one group adds to a block beside its entries.
pub const GROUP_OVERHEAD_BYTES: usize = 128;

const HARD: u8 = 1;
const ENTRIES: u8 = 2;
const COMPACTED: u8 = 3;
/// A checkpoint of format version 1: it does not say since when its members are in force.
const CHECKPOINT_WITHOUT_INDEX: u8 = 4;
const MOVED: u8 = 5;
const CHECKPOINT: u8 = 6;
const MEMBERS: u8 = 7;
const RESET: u8 = 8;

/// What a voter must never forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hard {
    /// Current term.
    pub term: u64,
    /// Whom this node voted for in that term.
    pub vote: u64,
    /// Known committed index; may lag.
    pub commit: u64,
}

/// A position in a group's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Index of the entry.
    pub index: u64,
    /// Its term.
    pub term: u64,
}

/// All of a group except its entries; opens every segment, so that older ones can go.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checkpoint {
    /// Term, vote and commit.
    pub hard: Hard,
    /// The last entry that was compacted away.
    pub compacted: Position,
    /// Index of the last entry.
    pub last: u64,
    /// Members.
    pub members: Members,
}

/// A configuration and the index of the entry, or of the snapshot, that brought it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Members {
    /// In force since this entry was delivered.
    pub index: u64,
    /// Who votes and who learns; both empty on a node that joins.
    pub state: ConfState,
}

/// One entry's place inside a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Index and term.
    pub position: Position,
    /// First byte, relative to the buffer that was parsed.
    pub offset: usize,
    /// Whole encoded size.
    pub bytes: usize,
    /// It changes the members.
    pub is_change: bool,
}

/// A parsed record; entries are located, not copied.
#[derive(Debug, PartialEq)]
pub enum Record {
    /// New term, vote or commit.
    Hard(Hard),
    /// Appended entries; the first one replaces whatever was at its index and behind.
    Entries(Vec<Placed>),
    /// Everything up to here is gone.
    Compacted(Position),
    /// See [`Checkpoint`].
    Checkpoint(Checkpoint),
    /// Entries written again so that an old segment can go; nothing behind them changes.
    Moved(Vec<Placed>),
    /// The members changed.
    Members(Members),
    /// A snapshot replaced the group's state: all entries are gone and the next one follows this.
    Reset(Position),
}

/// True for an entry that changes the members.
#[must_use]
pub fn is_change(entry: &Entry) -> bool {
    entry.get_entry_type() != EntryType::EntryNormal
}

/// Bytes that an entry takes in a block.
#[must_use]
pub fn entry_bytes(entry: &Entry) -> usize {
    ENTRY_HEADER_BYTES + entry.data.len() + entry.context.len()
}

/// Appends a hard state.
pub fn put_hard(body: &mut Vec<u8>, group: u32, hard: Hard) {
    put_kind(body, HARD, group);
    put_numbers(body, &[hard.term, hard.vote, hard.commit]);
}

/// Appends a compaction mark.
pub fn put_compacted(body: &mut Vec<u8>, group: u32, upto: Position) {
    put_kind(body, COMPACTED, group);
    put_numbers(body, &[upto.index, upto.term]);
}

/// Appends a checkpoint.
pub fn put_checkpoint(body: &mut Vec<u8>, group: u32, state: &Checkpoint) {
    put_kind(body, CHECKPOINT, group);
    let Checkpoint { hard, compacted, last, members } = state;
    put_numbers(body, &[hard.term, hard.vote, hard.commit]);
    put_numbers(body, &[compacted.index, compacted.term, *last]);
    put_member_lists(body, members);
}

/// Appends a new configuration.
pub fn put_members(body: &mut Vec<u8>, group: u32, members: &Members) {
    put_kind(body, MEMBERS, group);
    put_member_lists(body, members);
}

/// Appends that the log begins anew behind `position`.
pub fn put_reset(body: &mut Vec<u8>, group: u32, position: Position) {
    put_kind(body, RESET, group);
    put_numbers(body, &[position.index, position.term]);
}

fn put_member_lists(body: &mut Vec<u8>, members: &Members) {
    let state = &members.state;
    for list in [&state.voters, &state.learners, &state.voters_outgoing, &state.learners_next] {
        put_count(body, list.len());
        put_numbers(body, list);
    }
    body.push(u8::from(state.auto_leave));
    put_numbers(body, &[members.index]);
}

/// Appends entries with contiguous indexes; answers where each lies in `body`.
pub fn put_entries(body: &mut Vec<u8>, group: u32, entries: &[Entry]) -> Vec<Placed> {
    put_run(body, ENTRIES, group, entries)
}

/// Appends entries that are in the log already.
pub fn put_moved(body: &mut Vec<u8>, group: u32, entries: &[Entry]) -> Vec<Placed> {
    put_run(body, MOVED, group, entries)
}

fn put_run(body: &mut Vec<u8>, kind: u8, group: u32, entries: &[Entry]) -> Vec<Placed> {
    put_kind(body, kind, group);
    put_numbers(body, &[entries.first().map_or(0, |entry| entry.index)]);
    put_count(body, entries.len());
    entries.iter().map(|entry| put_entry(body, entry)).collect()
}

fn put_entry(body: &mut Vec<u8>, entry: &Entry) -> Placed {
    let offset = body.len();
    put_numbers(body, &[entry.term]);
    body.push(match entry.get_entry_type() {
        EntryType::EntryNormal => 0,
        EntryType::EntryConfChange => 1,
        EntryType::EntryConfChangeV2 => 2,
    });
    put_count(body, entry.data.len());
    put_count(body, entry.context.len());
    body.extend_from_slice(&entry.data);
    body.extend_from_slice(&entry.context);
    let position = Position { index: entry.index, term: entry.term };
    Placed { position, offset, bytes: body.len() - offset, is_change: is_change(entry) }
}

fn put_kind(body: &mut Vec<u8>, kind: u8, group: u32) {
    body.push(kind);
    body.extend_from_slice(&group.to_le_bytes());
}

fn put_numbers(body: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        body.extend_from_slice(&number.to_le_bytes());
    }
}

fn put_count(body: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("a count in a block is below 2^32");
    body.extend_from_slice(&count.to_le_bytes());
}

/// Rebuilds an entry from its encoded bytes.
///
/// # Errors
/// `Corrupt` when the bytes are not an entry.
pub fn parse_entry(encoded: &Bytes, index: u64) -> Result<Entry> {
    let mut reader = Reader { bytes: encoded, at: 0 };
    let term = reader.number()?;
    let kind = entry_kind(reader.byte()?)?;
    let (data, context) = (reader.count()?, reader.count()?);
    let start = reader.at;
    reader.skip(data.checked_add(context).ok_or_else(malformed)?)?;
    let mut entry = Entry { index, term, ..Entry::default() };
    entry.set_entry_type(kind);
    entry.data = encoded.slice(start..start + data);
    entry.context = encoded.slice(start + data..start + data + context);
    Ok(entry)
}

fn entry_kind(byte: u8) -> Result<EntryType> {
    match byte {
        0 => Ok(EntryType::EntryNormal),
        1 => Ok(EntryType::EntryConfChange),
        2 => Ok(EntryType::EntryConfChangeV2),
        _ => Err(malformed()),
    }
}

/// Parses all records of `bytes[start..end]`; places are relative to `bytes`.
///
/// # Errors
/// `Corrupt` when the body is not a sequence of records.
pub fn parse(bytes: &[u8], start: usize, end: usize) -> Result<Vec<(u32, Record)>> {
    let mut reader = Reader { bytes: &bytes[..end], at: start };
    let mut records = Vec::new();
    while reader.at < end {
        let kind = reader.byte()?;
        let group = reader.group()?;
        records.push((group, reader.record(kind)?));
    }
    Ok(records)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn malformed() -> Error {
    Error::Corrupt("a block with a good checksum holds malformed records".to_owned())
}

impl Reader<'_> {
    fn skip(&mut self, count: usize) -> Result<&[u8]> {
        let end = self.at.checked_add(count).ok_or_else(malformed)?;
        let part = self.bytes.get(self.at..end).ok_or_else(malformed)?;
        self.at = end;
        Ok(part)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.skip(1)?[0])
    }

    fn group(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.skip(4)?.try_into().map_err(|_| malformed())?))
    }

    fn count(&mut self) -> Result<usize> {
        Ok(self.group()? as usize)
    }

    fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.skip(8)?.try_into().map_err(|_| malformed())?))
    }

    fn numbers(&mut self) -> Result<Vec<u64>> {
        let count = self.count()?;
        (0..count).map(|_| self.number()).collect()
    }

    fn position(&mut self) -> Result<Position> {
        Ok(Position { index: self.number()?, term: self.number()? })
    }

    fn hard(&mut self) -> Result<Hard> {
        Ok(Hard { term: self.number()?, vote: self.number()?, commit: self.number()? })
    }

    fn record(&mut self, kind: u8) -> Result<Record> {
        match kind {
            HARD => Ok(Record::Hard(self.hard()?)),
            ENTRIES => Ok(Record::Entries(self.run()?)),
            COMPACTED => Ok(Record::Compacted(self.position()?)),
            CHECKPOINT | CHECKPOINT_WITHOUT_INDEX => {
                Ok(Record::Checkpoint(self.checkpoint(kind == CHECKPOINT)?))
            }
            MEMBERS => Ok(Record::Members(self.members(true)?)),
            RESET => Ok(Record::Reset(self.position()?)),
            MOVED => Ok(Record::Moved(self.run()?)),
            _ => Err(malformed()),
        }
    }

    fn checkpoint(&mut self, has_index: bool) -> Result<Checkpoint> {
        let (hard, compacted, last) = (self.hard()?, self.position()?, self.number()?);
        Ok(Checkpoint { hard, compacted, last, members: self.members(has_index)? })
    }

    fn members(&mut self, has_index: bool) -> Result<Members> {
        let state = ConfState {
            voters: self.numbers()?,
            learners: self.numbers()?,
            voters_outgoing: self.numbers()?,
            learners_next: self.numbers()?,
            auto_leave: self.byte()? != 0,
            ..ConfState::default()
        };
        Ok(Members { index: if has_index { self.number()? } else { 0 }, state })
    }

    fn run(&mut self) -> Result<Vec<Placed>> {
        let (first, count) = (self.number()?, self.count()?);
        (first..).take(count).map(|index| self.placed(index)).collect()
    }

    fn placed(&mut self, index: u64) -> Result<Placed> {
        let offset = self.at;
        let term = self.number()?;
        let is_change = entry_kind(self.byte()?)? != EntryType::EntryNormal;
        let (data, context) = (self.count()?, self.count()?);
        self.skip(data)?;
        self.skip(context)?;
        let position = Position { index, term };
        Ok(Placed { position, offset, bytes: self.at - offset, is_change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, term: u64, data: &'static [u8]) -> Entry {
        Entry { index, term, data: Bytes::from_static(data), ..Entry::default() }
    }

    #[test]
    fn all_records_read_back() {
        let hard = Hard { term: 3, vote: 1, commit: 9 };
        let at = Position { index: 4, term: 2 };
        let voters = ConfState { voters: vec![1, 2], learners: vec![3], ..ConfState::default() };
        let members = Members { index: 4, state: voters };
        let state = Checkpoint { hard, compacted: at, last: 12, members: members.clone() };
        let mut body = vec![0; 3];
        put_hard(&mut body, 7, hard);
        put_compacted(&mut body, 8, at);
        put_checkpoint(&mut body, 9, &state);
        let placed = put_entries(&mut body, 1, &[entry(5, 2, b"a"), entry(6, 3, b"bc")]);
        let moved = put_moved(&mut body, 2, &[entry(1, 1, b"")]);
        put_members(&mut body, 3, &members);
        put_reset(&mut body, 4, at);
        let records = parse(&body, 3, body.len()).unwrap();
        let expected = vec![
            (7, Record::Hard(hard)),
            (8, Record::Compacted(at)),
            (9, Record::Checkpoint(state)),
            (1, Record::Entries(placed.clone())),
            (2, Record::Moved(moved)),
            (3, Record::Members(members)),
            (4, Record::Reset(at)),
        ];
        assert_eq!(records, expected);
        let bytes = Bytes::from(body);
        let second = placed[1];
        let found = bytes.slice(second.offset..second.offset + second.bytes);
        assert_eq!(parse_entry(&found, 6).unwrap(), entry(6, 3, b"bc"));
    }

    #[test]
    fn a_checkpoint_of_version_1_is_read() {
        let mut body = Vec::new();
        put_checkpoint(&mut body, 0, &Checkpoint { last: 3, ..Checkpoint::default() });
        body[0] = CHECKPOINT_WITHOUT_INDEX;
        body.truncate(body.len() - 8);
        let expected = Record::Checkpoint(Checkpoint { last: 3, ..Checkpoint::default() });
        assert_eq!(parse(&body, 0, body.len()).unwrap(), [(0, expected)]);
    }

    #[test]
    fn every_cut_is_malformed_or_a_shorter_list() {
        let mut body = Vec::new();
        put_entries(&mut body, 1, &[entry(5, 2, b"abc")]);
        for end in 1..body.len() {
            assert!(parse(&body, 0, end).is_err(), "cut at {end}");
        }
    }
}
