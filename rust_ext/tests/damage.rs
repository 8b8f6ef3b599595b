//! Every way of hurting the files: a torn end is repaired, anything else is refused, and nothing
//! durable is ever dropped in silence.

mod support;

use _raftlog::errors::Error;
use _raftlog::segment;
use _raftlog::simdisk::SimDisk;
use bytes::Bytes;
use support::{content, open, settle};

const FIRST_BLOCK: usize = 64;

/// A disk with a few blocks; answers it with the content before the last block and after it.
fn sample() -> (SimDisk, Vec<u8>, Vec<u8>) {
    let disk = SimDisk::new(1);
    let mut node = open(&disk, &[0, 0], 64 * 1024).unwrap();
    settle(&mut node);
    let mut before = Vec::new();
    for number in 0..6_u8 {
        before = disk.content(&segment::name(1));
        node.propose(u32::from(number % 2), Bytes::from(vec![number; 40])).unwrap();
        settle(&mut node);
    }
    let after = disk.content(&segment::name(1));
    (disk, before, after)
}

fn changed(before: &[u8], after: &[u8]) -> (usize, usize) {
    let first = before.iter().zip(after).position(|(old, new)| old != new).unwrap();
    let last = before.iter().zip(after).rposition(|(old, new)| old != new).unwrap();
    (first, last + 1)
}

#[test]
fn a_block_torn_at_any_byte_is_repaired() {
    let (disk, before, after) = sample();
    let (start, end) = changed(&before, &after);
    for cut in start + 1..end {
        let torn = disk.fork();
        torn.overwrite(&segment::name(1), start, &before[start..]);
        torn.overwrite(&segment::name(1), start, &after[start..cut]);
        let mut node = open(&torn, &[0, 0], 64 * 1024).unwrap();
        assert!(node.log().counters.repaired_bytes > 0, "cut at {cut}");
        assert!(torn.content(&segment::name(1))[start..].iter().all(|byte| *byte == 0));
        let committed = settle(&mut node);
        assert_eq!(content(&committed, 0).len(), 3, "cut at {cut}");
        assert_eq!(content(&committed, 1).len(), 2, "cut at {cut}");
        node.propose(1, Bytes::from_static(b"again")).unwrap();
        assert_eq!(content(&settle(&mut node), 1), [Bytes::from_static(b"again")]);
        drop(node);
        let mut node = open(&torn, &[0, 0], 64 * 1024).unwrap();
        assert_eq!(content(&settle(&mut node), 1).len(), 3, "cut at {cut}");
    }
}

#[test]
fn a_file_cut_inside_the_last_block_is_repaired() {
    let (disk, before, after) = sample();
    let (start, end) = changed(&before, &after);
    for cut in start..end {
        let torn = disk.fork();
        torn.truncate(&segment::name(1), cut);
        let mut node = open(&torn, &[0, 0], 64 * 1024).unwrap();
        assert_eq!(content(&settle(&mut node), 1).len(), 2, "cut at {cut}");
    }
}

#[test]
fn a_file_of_any_length_without_a_block_is_gone_on_with() {
    for groups in 1..=3 {
        let applied = vec![0; groups];
        let disk = SimDisk::new(1);
        settle(&mut open(&disk, &applied, 64 * 1024).unwrap());
        disk.overwrite(&segment::name(1), FIRST_BLOCK, &[0; 1024]);
        for length in FIRST_BLOCK..FIRST_BLOCK + 1024 {
            let short = disk.fork();
            short.truncate(&segment::name(1), length);
            let mut node = open(&short, &applied, 64 * 1024).unwrap();
            settle(&mut node);
            node.propose(0, Bytes::from_static(b"first")).unwrap();
            assert_eq!(content(&settle(&mut node), 0), [Bytes::from_static(b"first")]);
        }
    }
}

#[test]
fn a_flipped_byte_before_the_last_block_is_refused_or_harmless() {
    let (disk, before, after) = sample();
    let (start, _) = changed(&before, &after);
    let mut refused = 0;
    for at in 0..start {
        let bad = disk.fork();
        bad.flip(&segment::name(1), at);
        match open(&bad, &[0, 0], 64 * 1024) {
            Err(Error::Corrupt(text)) => {
                assert!(text.contains(&segment::name(1)) && text.contains("offset"), "{text}");
                refused += 1;
            }
            Err(Error::Format(_)) => assert!(at < 8, "byte {at}"),
            Err(error) => panic!("byte {at}: {error}"),
            Ok(mut node) => {
                let committed = settle(&mut node);
                assert_eq!(content(&committed, 0).len(), 3, "byte {at} lost entries");
                assert_eq!(content(&committed, 1).len(), 3, "byte {at} lost entries");
            }
        }
    }
    // Only the padding of blocks and of the segment header is not covered by a checksum.
    assert!(refused > start * 9 / 10, "{refused} of {start}");
}

#[test]
fn a_flipped_byte_in_the_last_block_counts_as_torn() {
    let (disk, before, after) = sample();
    let (start, end) = changed(&before, &after);
    for at in start..end {
        let bad = disk.fork();
        bad.flip(&segment::name(1), at);
        let mut node = open(&bad, &[0, 0], 64 * 1024).unwrap();
        assert!(node.log().counters.repaired_bytes > 0);
        assert_eq!(content(&settle(&mut node), 1).len(), 2);
    }
}

#[test]
fn another_format_version_node_or_group_count_is_refused() {
    let (disk, _, _) = sample();
    let newer = disk.fork();
    let mut header = disk.content(&segment::name(1))[..FIRST_BLOCK].to_vec();
    header[8] = 3;
    let sum = crc32fast::hash(&header[..52]).to_le_bytes();
    header[52..56].copy_from_slice(&sum);
    newer.overwrite(&segment::name(1), 0, &header);
    assert!(
        matches!(open(&newer, &[0, 0], 1 << 16), Err(Error::Format(text)) if text.contains("version 3"))
    );
    assert!(matches!(open(&disk, &[0, 0, 0], 1 << 16), Err(Error::Format(_))));
    let other = std::sync::Arc::new(disk.fork());
    let settings = support::settings(2, &[2]);
    let outcome =
        _raftlog::node::Node::new(other, &settings, &support::machines(&[0, 0]), 1 << 16, true);
    assert!(matches!(outcome, Err(Error::Format(_))));
}

/// Many small segments with live entries in all of them.
fn many_segments() -> SimDisk {
    let disk = SimDisk::new(2);
    let mut node = open(&disk, &[0], 1024).unwrap();
    settle(&mut node);
    for number in 0..12_u8 {
        node.propose(0, Bytes::from(vec![number; 300])).unwrap();
        settle(&mut node);
    }
    assert!(node.log().segments().count() >= 4);
    disk
}

fn without(disk: &SimDisk, number: u64) -> SimDisk {
    use _raftlog::disk::Disk;
    let less = disk.fork();
    less.remove(&segment::name(number)).unwrap();
    less
}

#[test]
fn a_missing_segment_is_refused_wherever_it_was() {
    let disk = many_segments();
    for number in [1, 2, 3] {
        let outcome = open(&without(&disk, number), &[0], 1024);
        assert!(matches!(outcome, Err(Error::Corrupt(_))), "segment {number}");
    }
}

#[test]
fn damage_at_the_end_of_a_segment_is_seen_from_the_next() {
    let disk = many_segments();
    let first = disk.content(&segment::name(1));
    let used = first.iter().rposition(|byte| *byte != 0).unwrap();
    disk.flip(&segment::name(1), used - 8);
    assert!(matches!(open(&disk, &[0], 1024), Err(Error::Corrupt(_))));
}

#[test]
fn a_state_machine_ahead_of_or_behind_the_log_is_refused() {
    let (disk, _, _) = sample();
    assert!(matches!(open(&disk.fork(), &[99, 0], 1 << 16), Err(Error::Corrupt(_))));
    let mut node = open(&disk, &[0, 0], 1 << 16).unwrap();
    settle(&mut node);
    node.applied(0, 3).unwrap();
    node.compact(0, 3).unwrap();
    node.close().unwrap();
    assert!(matches!(open(&disk, &[2, 0], 1 << 16), Err(Error::Corrupt(_))));
}
