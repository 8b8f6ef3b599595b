//! Segment files: names, headers, how one comes into being and how a used one is kept for reuse.
//! Which segment a block goes to is decided in `space.rs`.
//!
//! A file gets its final name only after its header is durable, so a segment with a bad header is
//! always damage and never the trace of a crash.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::disk::{Disk, File};
use crate::errors::{Error, Result};

/// Offset of the first block.
pub const FIRST_BLOCK: u64 = 64;
const VERSION: u32 = 2;
/// Version 1 has no records of changed members and of snapshots.
const VERSION_LEAST: u32 = 1;
const MAGIC: [u8; 8] = *b"fnraftlg";
const CHECKED_BYTES: usize = 52;
const FRESH_NAME: &str = "next.tmp";

/// To whom a log belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The node.
    pub node: u64,
    /// Number of groups.
    pub groups: u32,
    /// A number that only this directory knows; part of every checksum.
    pub secret: u64,
}

/// The first bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// To whom the log belongs.
    pub identity: Identity,
    /// Position of this file among the segments.
    pub number: u64,
    /// No block of this segment has a lower sequence; what has is left over from earlier use.
    pub least: u64,
    /// The file was used before, so bytes behind the last block may be anything.
    pub is_recycled: bool,
}

/// File name of a segment.
#[must_use]
pub fn name(number: u64) -> String {
    format!("{number:016x}.seg")
}

/// The number in a segment's file name.
#[must_use]
pub fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    if digits.len() == 16 { u64::from_str_radix(digits, 16).ok() } else { None }
}

/// File name of a segment that waits for reuse.
#[must_use]
pub fn spare_name(number: u64) -> String {
    format!("{number:016x}.spare")
}

impl Header {
    /// The bytes on disk.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&u32::from(self.is_recycled).to_le_bytes());
        bytes.extend_from_slice(&self.identity.secret.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.least.to_le_bytes());
        bytes.extend_from_slice(&self.identity.node.to_le_bytes());
        bytes.extend_from_slice(&self.identity.groups.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes.resize(64, 0);
        bytes
    }

    /// Reads a header back; `file` names it in errors.
    ///
    /// # Errors
    /// `Format` for a file of another program or version, `Corrupt` for a damaged one.
    pub fn decode(bytes: &[u8], file: &str) -> Result<Self> {
        let Some(part) = bytes.get(..CHECKED_BYTES + 4).filter(|part| part[..8] == MAGIC) else {
            let text = format!("{file} is not a segment of this log: move it out of the directory");
            return Err(Error::Format(text));
        };
        let long = |at: usize| number_at(part, at, 8);
        let short = |at: usize| u32::try_from(number_at(part, at, 4)).unwrap_or(0);
        if crc32fast::hash(&part[..CHECKED_BYTES]) != short(CHECKED_BYTES) {
            let text = format!("{file}: the header at offset 0 is damaged; {}", advice());
            return Err(Error::Corrupt(text));
        }
        if !(VERSION_LEAST..=VERSION).contains(&short(8)) {
            let text = format!(
                "{file} has format version {}, this program reads up to version {VERSION}: \
                 start the program version that wrote it",
                short(8)
            );
            return Err(Error::Format(text));
        }
        let identity = Identity { node: long(40), groups: short(48), secret: long(16) };
        Ok(Self { identity, number: long(24), least: long(32), is_recycled: short(12) != 0 })
    }
}

fn number_at(bytes: &[u8], at: usize, width: usize) -> u64 {
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(&bytes[at..at + width]);
    u64::from_le_bytes(wide)
}

/// What an operator does about a damaged log.
#[must_use]
pub fn advice() -> &'static str {
    "acknowledged entries may be lost here: restore this node's directory from a backup, \
     or remove it and let the node join again from its peers; do not delete single files"
}

/// Makes a new segment of at least this length, out of the file `spare` when there is one; answers
/// the file and its length.
///
/// # Errors
/// The disk's; when it is full nothing is left behind.
pub fn prepare(
    disk: &dyn Disk,
    header: &Header,
    spare: Option<&str>,
    length: u64,
) -> Result<(Arc<dyn File>, u64)> {
    let source = spare.unwrap_or(FRESH_NAME);
    let failed = |error| Error::io(format!("prepare segment {}", name(header.number)), error);
    // Without this the old name could come back after a crash and show the new header.
    disk.sync_directory().map_err(failed)?;
    let file = if spare.is_some() { disk.open(source) } else { disk.create(source) };
    let file = file.map_err(failed)?;
    // What a spare has is kept, but it is made no longer than asked: it may be one that was never
    // used, and what it lacks would be taken from a disk that is nearly full.
    let length = file.length().map_err(failed)?.max(length);
    let filled = file
        .allocate(0, length)
        .and_then(|()| file.write_at(&header.encode(), 0))
        .and_then(|()| file.sync());
    if let Err(error) = filled {
        if spare.is_none() {
            disk.remove(source).map_err(failed)?;
        }
        return Err(failed(error));
    }
    disk.rename(source, &name(header.number)).map_err(failed)?;
    disk.sync_directory().map_err(failed)?;
    Ok((file, length))
}

struct Segment {
    file: Arc<dyn File>,
    live_bytes: u64,
}

/// The segments in use and how much of each is still needed. Shared by the log and the groups.
#[derive(Default)]
pub struct Segments {
    inner: Mutex<BTreeMap<u64, Segment>>,
}

impl Segments {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Segment>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new segment.
    pub fn add(&self, number: u64, file: Arc<dyn File>) {
        self.lock().insert(number, Segment { file, live_bytes: 0 });
    }

    /// Forgets a segment.
    pub fn remove(&self, number: u64) -> Option<Arc<dyn File>> {
        self.lock().remove(&number).map(|segment| segment.file)
    }

    /// An entry now lives in this segment.
    pub fn charge(&self, number: u64, bytes: u64) {
        if let Some(segment) = self.lock().get_mut(&number) {
            segment.live_bytes += bytes;
        }
    }

    /// An entry in this segment is no longer needed.
    pub fn release(&self, number: u64, bytes: u64) {
        if let Some(segment) = self.lock().get_mut(&number) {
            segment.live_bytes -= bytes;
        }
    }

    /// Number and needed bytes of the oldest segment.
    #[must_use]
    pub fn oldest(&self) -> Option<(u64, u64)> {
        self.lock().iter().next().map(|(number, segment)| (*number, segment.live_bytes))
    }

    /// Leading segments below `limit` that nobody needs.
    #[must_use]
    pub fn dead_below(&self, limit: u64) -> Vec<u64> {
        let inner = self.lock();
        let dead = inner.iter().take_while(|(number, it)| **number < limit && it.live_bytes == 0);
        dead.map(|(number, _)| *number).collect()
    }

    /// How many segments there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Bytes on disk, and how many of them are needed.
    #[must_use]
    pub fn totals(&self) -> (u64, u64) {
        let inner = self.lock();
        let disk_bytes = inner.values().map(|segment| segment.file.length().unwrap_or(0)).sum();
        (disk_bytes, inner.values().map(|segment| segment.live_bytes).sum())
    }

    /// Reads bytes of a segment.
    ///
    /// # Errors
    /// The disk's, and `Corrupt` when the file is too short.
    pub fn read(&self, number: u64, offset: u64, bytes: usize) -> Result<Bytes> {
        let Some(file) = self.lock().get(&number).map(|segment| segment.file.clone()) else {
            return Err(Error::Corrupt(format!("segment {} is not open", name(number))));
        };
        let mut buffer = vec![0; bytes];
        let doing = || format!("read {bytes} bytes at {offset} of {}", name(number));
        let got = file.read_at(&mut buffer, offset).map_err(|error| Error::io(doing(), error))?;
        if got == bytes { Ok(Bytes::from(buffer)) } else { Err(Error::Corrupt(doing())) }
    }
}
