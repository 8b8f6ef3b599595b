//! The writer's thread: segments made ready ahead, recycling and a disk that runs full under load;
//! and blocks that a caller with nothing else to do writes itself.

mod support;

use std::sync::Arc;
use std::time::Duration;

use _raftlog::errors::Error;
use _raftlog::node::Node;
use _raftlog::simdisk::SimDisk;
use _raftlog::turn::Turn;
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
        self.take(turn)
    }

    fn turn_here(&mut self) -> bool {
        for _ in 0..2 {
            let turn = self.node.ready_here().unwrap();
            if !self.take(turn) {
                return false;
            }
        }
        true
    }

    fn take(&mut self, turn: Turn) -> bool {
        for batch in turn.committed {
            self.last = batch.last_index;
            self.node.applied(0, self.last).unwrap();
            self.committed.extend(batch.entries);
        }
        turn.persisting
    }

    fn settle(&mut self) {
        while self.turn() || !self.node.log().writer().is_idle() {
            std::thread::yield_now();
        }
    }

    fn found_after_a_crash(self, disk: &SimDisk) -> Vec<Bytes> {
        drop(self);
        disk.crash();
        let mut again = Self::open(disk, 0);
        again.settle();
        again.committed
    }

    /// Proposes one after the other; answers for each whether its own turn committed it.
    fn propose_alone(&mut self, count: usize) -> Vec<bool> {
        let mut at_once = Vec::new();
        for _ in 0..count {
            let before = self.committed.len();
            self.node.propose(0, Bytes::from_static(b"alone")).unwrap();
            self.turn_here();
            at_once.push(self.committed.len() > before);
            self.settle();
            assert_eq!(self.committed.len(), before + 1);
        }
        at_once
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
        if dice.below(4) == 0 {
            load.turn_here()
        } else {
            load.turn()
        };
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

#[test]
fn a_caller_with_nothing_else_to_do_writes_the_block_itself() {
    let disk = SimDisk::new(2);
    let mut load = Load::open(&disk, 0);
    load.settle();
    // Longer than a turn: no other thread would be done before it is over.
    disk.set_sync_time(Duration::from_millis(20));
    assert_eq!(load.propose_alone(1), [true]);
    assert_eq!(load.found_after_a_crash(&disk), [Bytes::from_static(b"alone")]);
}

#[test]
fn a_block_that_was_begun_counts_once_it_is_finished() {
    let disk = SimDisk::new(4);
    let mut load = Load::open(&disk, 0);
    load.settle();
    let syncs = disk.syncs();
    load.node.propose(0, Bytes::from_static(b"begun")).unwrap();
    let turn = load.node.ready_here().unwrap();
    assert!(turn.persisting && turn.committed.is_empty());
    assert!(!load.node.log().writer().is_idle());
    assert_eq!(disk.syncs(), syncs);
    load.turn();
    assert_eq!((load.committed.len(), disk.syncs()), (1, syncs + 1));
    load.node.propose(0, Bytes::from_static(b"never finished")).unwrap();
    load.node.ready_here().unwrap();
    assert_eq!(load.found_after_a_crash(&disk), [Bytes::from_static(b"begun")]);
}

#[test]
fn closing_finishes_what_was_begun() {
    let disk = SimDisk::new(5);
    let mut load = Load::open(&disk, 0);
    load.settle();
    load.node.propose(0, Bytes::from_static(b"begun")).unwrap();
    load.node.ready_here().unwrap();
    load.node.close().unwrap();
    assert_eq!(load.found_after_a_crash(&disk), [Bytes::from_static(b"begun")]);
}

#[test]
fn a_slow_disk_holds_up_the_thread_and_seldom_the_caller() {
    let disk = SimDisk::new(3);
    let mut load = Load::open(&disk, 0);
    load.settle();
    disk.set_sync_time(Duration::from_millis(5));
    let at_once = load.propose_alone(60);
    // A busy machine may end a turn so late that the thread was quicker.
    assert!(at_once.iter().filter(|it| **it).count() <= 12, "{at_once:?}");
    disk.set_sync_time(Duration::ZERO);
    let at_once = load.propose_alone(200);
    assert!(at_once[150..].iter().any(|it| *it), "{at_once:?}");
}

#[test]
fn a_large_block_is_left_to_the_thread() {
    let disk = SimDisk::new(6);
    let mut load = Load::open(&disk, 0);
    load.settle();
    disk.set_sync_time(Duration::from_millis(20));
    let large = Bytes::from(vec![7; 256 * 1024]);
    load.node.propose(0, large.clone()).unwrap();
    assert!(load.turn_here(), "it is on its way");
    load.settle();
    assert_eq!(load.committed, [large]);
}

#[test]
fn packets_for_peers_do_not_wait_for_the_disk() {
    let mut nodes = [1, 2].map(|id| {
        let disk = Arc::new(SimDisk::new(id));
        Node::new(disk, &settings(id, &[1, 2]), &machines(&[0]), SEGMENT_BYTES, false).unwrap()
    });
    for _ in 0..1000 {
        for at in [0, 1] {
            nodes[at].tick();
            for (_, packet) in nodes[at].ready().unwrap().sends {
                nodes[1 - at].step(&packet);
            }
        }
        std::thread::yield_now();
        if nodes[0].propose(0, Bytes::from_static(b"shared")).is_ok() {
            let turn = nodes[0].ready_here().unwrap();
            assert!(!turn.sends.is_empty() && turn.persisting);
            return;
        }
    }
    panic!("nobody leads");
}
