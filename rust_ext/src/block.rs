//! The frame of a block: how a turn's records are told from torn, old and foreign bytes.
//! What the records mean is in `record.rs`.
//!
//! A block is `magic, body length, sequence, checksum`, then the body, then zeros up to the next
//! multiple of eight. The checksum covers a number that only this directory knows, so bytes inside
//! a client's entry cannot pass for a block when a torn one is searched for survivors.

/// Bytes in front of a body.
pub const HEADER_BYTES: usize = 24;
/// Blocks begin at multiples of this.
pub const ALIGNMENT: usize = 8;
const MAGIC: [u8; 4] = *b"FnB1";

/// Where a valid block's body lies in the buffer that was looked at, and its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Position in the log, one more than the previous block's.
    pub sequence: u64,
    /// First byte of the body.
    pub body: usize,
    /// First byte behind the body.
    pub body_end: usize,
    /// First byte behind the block.
    pub end: usize,
}

/// A block's whole size on disk for a body of this many bytes.
#[must_use]
pub fn size(body_bytes: usize) -> usize {
    (HEADER_BYTES + body_bytes).next_multiple_of(ALIGNMENT)
}

/// An empty block to append records to; [`seal`] completes it.
#[must_use]
pub fn open() -> Vec<u8> {
    vec![0; HEADER_BYTES]
}

/// Writes the header and pads the block.
pub fn seal(block: &mut Vec<u8>, secret: u64, sequence: u64) {
    let length = u32::try_from(block.len() - HEADER_BYTES).expect("a block is below 4 GiB");
    block[0..4].copy_from_slice(&MAGIC);
    block[4..8].copy_from_slice(&length.to_le_bytes());
    block[8..16].copy_from_slice(&sequence.to_le_bytes());
    let sum = checksum(secret, length, sequence, &block[HEADER_BYTES..]);
    block[16..20].copy_from_slice(&sum.to_le_bytes());
    block.resize(block.len().next_multiple_of(ALIGNMENT), 0);
}

/// The valid block at `offset`, if there is one.
#[must_use]
pub fn read(bytes: &[u8], offset: usize, secret: u64) -> Option<Block> {
    let (length, sequence) = claim(bytes, offset)?;
    let body = offset + HEADER_BYTES;
    let body_end = body.checked_add(length as usize).filter(|end| *end <= bytes.len())?;
    let stored = u32::from_le_bytes(bytes[offset + 16..offset + 20].try_into().ok()?);
    if checksum(secret, length, sequence, &bytes[body..body_end]) != stored {
        return None;
    }
    Some(Block { sequence, body, body_end, end: body_end.next_multiple_of(ALIGNMENT) })
}

/// Length and sequence that the header at `offset` claims, unchecked.
#[must_use]
pub fn claim(bytes: &[u8], offset: usize) -> Option<(u32, u64)> {
    let header = bytes.get(offset..offset.checked_add(HEADER_BYTES)?)?;
    if header[..4] != MAGIC || header[20..24] != [0; 4] {
        return None;
    }
    let length = u32::from_le_bytes(header[4..8].try_into().ok()?);
    let sequence = u64::from_le_bytes(header[8..16].try_into().ok()?);
    Some((length, sequence))
}

/// The first valid block at or behind `offset` whose sequence is at least `least`.
#[must_use]
pub fn find_survivor(
    bytes: &[u8],
    offset: usize,
    secret: u64,
    least: u64,
) -> Option<(usize, Block)> {
    (offset.next_multiple_of(ALIGNMENT)..bytes.len().saturating_sub(HEADER_BYTES - 1))
        .step_by(ALIGNMENT)
        .filter(|at| bytes[*at..*at + 4] == MAGIC)
        .filter(|at| claim(bytes, *at).is_some_and(|(_, sequence)| sequence >= least))
        .find_map(|at| read(bytes, at, secret).map(|block| (at, block)))
}

fn checksum(secret: u64, length: u32, sequence: u64, body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&secret.to_le_bytes());
    sum.update(&length.to_le_bytes());
    sum.update(&sequence.to_le_bytes());
    sum.update(body);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(body: &[u8], sequence: u64) -> Vec<u8> {
        let mut block = open();
        block.extend_from_slice(body);
        seal(&mut block, 7, sequence);
        block
    }

    #[test]
    fn a_sealed_block_reads_back() {
        let bytes = sealed(b"hello", 3);
        let block = read(&bytes, 0, 7).unwrap();
        assert_eq!((block.sequence, &bytes[block.body..block.body_end]), (3, &b"hello"[..]));
        assert_eq!(block.end, size(5));
    }

    #[test]
    fn every_flipped_bit_of_header_and_body_is_noticed() {
        let good = sealed(b"some body", 9);
        for at in 0..HEADER_BYTES + 9 {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert_eq!(read(&bad, 0, 7), None, "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn a_forged_block_inside_an_entry_is_not_a_survivor() {
        let forged = sealed(b"evil", 1000);
        let mut torn = sealed(&forged, 5);
        torn[0] = 0;
        assert!(find_survivor(&torn, 0, 7, 5).is_some());
        assert!(find_survivor(&torn, 0, 8, 5).is_none());
    }

    #[test]
    fn older_blocks_are_no_survivors() {
        let mut bytes = vec![0; 64];
        bytes.extend_from_slice(&sealed(b"old", 4));
        assert!(find_survivor(&bytes, 0, 7, 5).is_none());
        assert_eq!(find_survivor(&bytes, 0, 7, 4).unwrap().0, 64);
    }
}
