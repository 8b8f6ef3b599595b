//! A node alone through a long life: proposals, crashes, full disks, compaction and recycling,
//! against a model that is a list per group.

mod support;

use _raftlog::disk::Disk;
use _raftlog::errors::{Error, Result};
use _raftlog::node::Node;
use _raftlog::segment;
use _raftlog::simdisk::SimDisk;
use bytes::Bytes;
use support::{Dice, content, open, settle};

const GROUPS: usize = 3;
const SEGMENT_BYTES: u64 = 4096;

/// What a state machine has seen and what of it survives its own crash.
#[derive(Default, Clone)]
struct Machine {
    seen: Vec<Bytes>,
    delivered: u64,
    flushed: u64,
    flushed_count: usize,
    /// What was acknowledged before the crash and has to come again.
    owed: Vec<Bytes>,
}

impl Machine {
    fn take(&mut self, last_index: u64, entries: Vec<Bytes>) {
        for entry in entries {
            if !self.owed.is_empty() {
                assert_eq!(self.owed.remove(0), entry, "an acknowledged entry came back changed");
            }
            if let Some(previous) = self.seen.last() {
                assert!(serial(previous) < serial(&entry), "repeated or out of order");
            }
            self.seen.push(entry);
        }
        assert!(last_index > self.delivered);
        self.delivered = last_index;
    }

    fn flush(&mut self) {
        (self.flushed, self.flushed_count) = (self.delivered, self.seen.len());
    }

    fn crash(&mut self) {
        let lost = self.seen.split_off(self.flushed_count);
        let owed = std::mem::take(&mut self.owed);
        self.owed = lost.into_iter().chain(owed).collect();
        self.delivered = self.flushed;
    }
}

fn serial(entry: &Bytes) -> u64 {
    u64::from_le_bytes(entry[..8].try_into().unwrap())
}

struct World {
    dice: Dice,
    disk: SimDisk,
    node: Node,
    machines: Vec<Machine>,
    serial: u64,
    fulls: u64,
    crashes: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        let node = open(&disk, &[0; GROUPS], SEGMENT_BYTES).unwrap();
        let machines = vec![Machine::default(); GROUPS];
        Self { dice: Dice::new(seed), disk, node, machines, serial: 0, fulls: 0, crashes: 0 }
    }

    fn turn(&mut self) -> Result<()> {
        for batch in self.node.ready()?.committed {
            let machine = &mut self.machines[batch.group as usize];
            machine.take(batch.last_index, batch.entries);
            self.node.applied(batch.group, batch.last_index)?;
        }
        Ok(())
    }

    fn propose(&mut self) -> Result<()> {
        let size = match self.dice.below(20) {
            0 => 3 * SEGMENT_BYTES,
            1..4 => 900,
            _ => self.dice.below(120),
        };
        self.serial += 1;
        let mut entry = self.serial.to_le_bytes().to_vec();
        entry.resize(8 + usize::try_from(size).unwrap(), 0xAB);
        let group = u32::try_from(self.dice.below(GROUPS as u64)).unwrap();
        match self.node.propose(group, Bytes::from(entry)) {
            Err(Error::Full) => self.fulls += 1,
            outcome => outcome?,
        }
        Ok(())
    }

    fn compact(&mut self) {
        // Group 0 is slow, so its old entries must be moved for segments to go.
        let group = usize::try_from(self.dice.below(GROUPS as u64)).unwrap();
        if group == 0 && self.dice.below(4) != 0 {
            return;
        }
        self.machines[group].flush();
        self.node.compact(u32::try_from(group).unwrap(), self.machines[group].flushed).unwrap();
    }

    fn crash(&mut self) {
        self.crashes += 1;
        self.disk.crash();
        self.reopen();
    }

    fn reopen(&mut self) {
        self.machines.iter_mut().for_each(Machine::crash);
        let applied: Vec<u64> = self.machines.iter().map(|machine| machine.flushed).collect();
        if self.dice.below(4) == 0 {
            self.disk.burn_fuse(self.dice.below(8));
        }
        let names = self.disk.list().unwrap();
        self.node = open(&self.disk, &applied, SEGMENT_BYTES).unwrap_or_else(|error| {
            assert!(self.disk.is_dark(), "{error} in {names:?}");
            self.disk.crash();
            open(&self.disk, &applied, SEGMENT_BYTES).unwrap()
        });
    }

    fn act(&mut self) -> Result<()> {
        match self.dice.below(100) {
            0..45 => self.propose()?,
            45..65 => self.turn()?,
            65..85 => drop(self.node.persist_step()?),
            85..94 => self.compact(),
            94..95 => self.disk.burn_fuse(self.dice.below(12)),
            95..96 => self.disk.set_free(self.dice.below(3 * SEGMENT_BYTES)),
            96..98 => self.disk.set_free(u64::MAX),
            98 => self.crash(),
            _ => {
                self.node.close()?;
                self.reopen();
            }
        }
        Ok(())
    }

    fn live(&mut self, steps: usize) {
        for _ in 0..steps {
            if let Err(error) = self.act() {
                assert!(self.disk.is_dark(), "{error}");
                self.crash();
            }
        }
    }

    fn finish(&mut self) {
        self.disk.set_free(u64::MAX);
        self.crash();
        self.disk.burn_fuse(u64::MAX);
        for _ in 0..40 {
            self.turn().unwrap();
            self.node.persist_step().unwrap();
        }
        for machine in &self.machines {
            assert!(machine.owed.is_empty(), "acknowledged entries are gone");
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_changed_or_repeated() {
    let (mut fulls, mut crashes) = (0, 0);
    for seed in 0..150 {
        let mut world = World::new(seed);
        world.live(600);
        world.finish();
        fulls += world.fulls;
        crashes += world.crashes;
    }
    assert!(fulls > 100 && crashes > 500, "{fulls} times full, {crashes} crashes");
}

#[test]
fn compaction_and_recycling_bound_the_disk_although_one_group_sleeps() {
    let disk = SimDisk::new(5);
    let mut node = open(&disk, &[0, 0], SEGMENT_BYTES).unwrap();
    settle(&mut node);
    node.propose(0, Bytes::from_static(b"sleeper")).unwrap();
    settle(&mut node);
    for number in 0..400_u64 {
        node.propose(1, Bytes::from(vec![7; 500])).unwrap();
        let last = settle(&mut node).last().unwrap().1;
        node.applied(1, last).unwrap();
        node.compact(1, last).unwrap();
        assert!(node.log().segments().count() <= 6, "at entry {number}");
    }
    let files = disk.list().unwrap();
    assert!(files.len() <= 8, "{files:?}");
    node.close().unwrap();
    let mut node = open(&disk, &[0, 401], SEGMENT_BYTES).unwrap();
    assert_eq!(content(&settle(&mut node), 0), [Bytes::from_static(b"sleeper")]);
}

#[test]
fn a_full_disk_refuses_proposals_keeps_promises_and_recovers() {
    let disk = SimDisk::new(6);
    let mut node = open(&disk, &[0], SEGMENT_BYTES).unwrap();
    settle(&mut node);
    disk.set_free(0);
    let mut accepted = 0;
    while node.propose(0, Bytes::from(vec![1; 100])).is_ok() {
        accepted += 1;
    }
    assert!(accepted > 0);
    assert!(matches!(node.propose(0, Bytes::from(vec![1; 100])), Err(Error::Full)));
    assert!(node.log().is_full());
    let committed = settle(&mut node);
    assert_eq!(content(&committed, 0).len(), accepted);
    drop(node);
    disk.crash();
    // Even now a restart elects a leader: its term and empty entry fit into the reserve.
    let mut node = open(&disk, &[0], SEGMENT_BYTES).unwrap();
    assert_eq!(content(&settle(&mut node), 0).len(), accepted);
    assert!(node.groups()[0].is_leader());
    assert!(matches!(node.propose(0, Bytes::from(vec![1; 3000])), Err(Error::Full)));
    disk.set_free(u64::MAX);
    node.propose(0, Bytes::from_static(b"room")).unwrap();
    assert_eq!(content(&settle(&mut node), 0), [Bytes::from_static(b"room")]);
    assert!(!node.log().is_full());
}

#[test]
fn compaction_makes_room_on_a_full_disk_although_one_group_sleeps() {
    let disk = SimDisk::new(7);
    let mut node = open(&disk, &[0, 0], SEGMENT_BYTES).unwrap();
    settle(&mut node);
    disk.set_free(SEGMENT_BYTES);
    let mut last = 0;
    while node.propose(0, Bytes::from(vec![1; 300])).is_ok() {
        last = settle(&mut node).last().unwrap().1;
    }
    node.applied(0, last).unwrap();
    node.compact(0, last).unwrap();
    settle(&mut node);
    for _ in 0..4 {
        node.propose(0, Bytes::from(vec![2; 300])).unwrap();
        assert_eq!(content(&settle(&mut node), 0).len(), 1);
    }
}

#[test]
fn a_segment_that_was_ready_before_a_restart_takes_no_more_of_a_full_disk() {
    let disk = SimDisk::new(12);
    let segment_bytes = 32 << 20;
    let mut node = open(&disk, &[0], segment_bytes).unwrap();
    settle(&mut node);
    let entry = Bytes::from(vec![1; 4 << 20]);
    while disk.list().unwrap().len() == 1 {
        settle(&mut node);
        node.propose(0, entry.clone()).unwrap();
    }
    // The last entry was only promised room, in a second segment.
    drop(node);
    let ready = disk.content(&segment::name(2)).len();
    assert!(ready < usize::try_from(segment_bytes).unwrap());
    disk.set_free(0);
    let mut node = open(&disk, &[0], segment_bytes).unwrap();
    settle(&mut node);
    node.propose(0, entry).unwrap();
    assert_eq!(content(&settle(&mut node), 0).len(), 1);
    assert_eq!(disk.content(&segment::name(2)).len(), ready);
}

#[test]
fn a_checkpoint_larger_than_a_segment_is_no_obstacle() {
    let disk = SimDisk::new(11);
    let mut node = open(&disk, &[0; 100], SEGMENT_BYTES).unwrap();
    settle(&mut node);
    for number in 0..20_u8 {
        node.propose(u32::from(number), Bytes::from(vec![number; 50])).unwrap();
        settle(&mut node);
    }
    drop(node);
    let mut node = open(&disk, &[0; 100], SEGMENT_BYTES).unwrap();
    let committed = settle(&mut node);
    assert!((0..20).all(|group| content(&committed, group).len() == 1));
}

#[test]
fn a_failed_sync_is_reported_and_nothing_is_acknowledged() {
    let disk = SimDisk::new(8);
    let mut node = open(&disk, &[0], SEGMENT_BYTES).unwrap();
    settle(&mut node);
    node.propose(0, Bytes::from_static(b"x")).unwrap();
    node.ready().unwrap();
    disk.fail_next_sync();
    assert!(matches!(node.persist_step(), Err(Error::Io { .. })));
    assert!(node.ready().unwrap().committed.is_empty());
}

#[test]
fn a_commit_alone_costs_no_sync() {
    let disk = SimDisk::new(9);
    let mut node = open(&disk, &[0], SEGMENT_BYTES).unwrap();
    settle(&mut node);
    let before = disk.syncs();
    for _ in 0..3 {
        node.propose(0, Bytes::from_static(b"x")).unwrap();
        settle(&mut node);
    }
    assert_eq!(disk.syncs() - before, 3);
}

#[test]
fn entries_evicted_from_memory_are_read_from_their_segment() {
    let disk = SimDisk::new(10);
    let mut node = open(&disk, &[0], 1 << 20).unwrap();
    settle(&mut node);
    for number in 0..40_u8 {
        node.propose(0, Bytes::from(vec![number; 100_000])).unwrap();
        let last = settle(&mut node).last().unwrap().1;
        node.applied(0, last).unwrap();
    }
    let runs = node.groups()[0].store().entries_in(2).unwrap();
    let entries: Vec<_> = runs.into_iter().flatten().collect();
    assert!(!entries.is_empty());
    for entry in entries {
        let number = u8::try_from(entry.index - 2).unwrap();
        assert!(entry.data.len() == 100_000 && entry.data.iter().all(|byte| *byte == number));
    }
}
