//! The writer's thread: segments made ready ahead, recycling and a disk that runs full under load.

mod support;

use std::sync::Arc;

use _raftlog::errors::Error;
use _raftlog::node::Node;
use _raftlog::simdisk::SimDisk;
use bytes::Bytes;
use support::{Dice, machines, settings};

const SEGMENT_BYTES: u64 = 8192;

struct Load {
    node: Node,
    committed: Vec<Bytes>,
    last: u64,
}

impl Load {
    fn open(disk: &SimDisk, applied: u64) -> Self {
        let disk = Arc::new(disk.clone());
        let node = Node::new(disk, &settings(1, &[1]), &machines(&[applied]), SEGMENT_BYTES, false)
            .unwrap();
        Self { node, committed: Vec::new(), last: applied }
    }

    fn turn(&mut self) -> bool {
        let turn = self.node.ready().unwrap();
        for batch in turn.committed {
            self.last = batch.last_index;
            self.node.applied(0, self.last).unwrap();
            self.committed.extend(batch.entries);
        }
        turn.persisting
    }

    fn settle(&mut self) {
        while self.turn() {
            std::thread::yield_now();
        }
    }
}

fn entry(dice: &mut Dice, serial: u64) -> Bytes {
    let size = if dice.below(30) == 0 { 20_000 } else { dice.below(1500) };
    let mut bytes = serial.to_le_bytes().to_vec();
    bytes.resize(8 + usize::try_from(size).unwrap(), serial.to_le_bytes()[0]);
    Bytes::from(bytes)
}

#[test]
fn everything_accepted_is_committed_in_order_and_found_again() {
    let mut dice = Dice::new(1);
    let disk = SimDisk::new(1);
    let mut load = Load::open(&disk, 0);
    load.settle();
    let (mut accepted, mut fulls, mut dropped) = (Vec::new(), 0, 0);
    for serial in 0..4000 {
        let bytes = entry(&mut dice, serial);
        match load.node.propose(0, bytes.clone()) {
            Ok(()) => accepted.push(bytes),
            Err(Error::Full) => fulls += 1,
            Err(error) => panic!("{error}"),
        }
        load.turn();
        match dice.below(400) {
            0 => disk.set_free(dice.below(3 * SEGMENT_BYTES)),
            1..8 => disk.set_free(u64::MAX),
            8..20 if load.last > 0 => {
                load.node.compact(0, load.last).unwrap();
                dropped = load.committed.len();
            }
            _ => {}
        }
    }
    disk.set_free(u64::MAX);
    load.settle();
    assert_eq!(load.committed, accepted);
    assert!(fulls > 10, "{fulls}");
    let applied = load.node.groups()[0].store().compacted().index;
    load.node.close().unwrap();
    let mut again = Load::open(&disk, applied);
    again.settle();
    assert_eq!(again.committed, accepted[dropped..]);
}
