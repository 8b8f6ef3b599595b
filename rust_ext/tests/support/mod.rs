//! What the tests of whole nodes share: opening one on a simulated disk and driving its turns.
#![allow(dead_code, missing_docs, reason = "each test binary uses a part of it")]

pub mod world;

use std::sync::Arc;

use _raftlog::disk::Disk;
use _raftlog::errors::Result;
use _raftlog::group::Settings;
use _raftlog::node::{Machine, Node};
use _raftlog::simdisk::SimDisk;
use _raftlog::turn::Turn;
use bytes::Bytes;

/// Xorshift; enough to vary tests by seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

pub fn settings(node: u64, voters: &[u64]) -> Settings {
    let (election_ticks, heartbeat_ticks, election_seed) = (10, 2, Some(0));
    let voters = voters.to_vec();
    let uncommitted_bytes_max = 1 << 28;
    Settings { node, voters, election_ticks, heartbeat_ticks, election_seed, uncommitted_bytes_max }
}

/// State machines that never were replaced by a snapshot.
pub fn machines(applied: &[u64]) -> Vec<Machine> {
    applied.iter().map(|applied| Machine { applied: *applied, restored: None }).collect()
}

pub fn open(disk: &SimDisk, applied: &[u64], segment_bytes: u64) -> Result<Node> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Node::new(disk, &settings(1, &[1]), &machines(applied), segment_bytes, true)
}

/// Runs turns until nothing is left to do; answers what was committed, by group.
pub fn settle(node: &mut Node) -> Vec<(u32, u64, Vec<Bytes>)> {
    let mut committed = Vec::new();
    loop {
        let turn = node.ready().unwrap();
        let is_idle = turn.committed.is_empty() && !turn.persisting;
        committed.extend(take(turn));
        let has_written = node.persist_step().unwrap();
        if is_idle && !has_written {
            return committed;
        }
    }
}

pub fn take(turn: Turn) -> Vec<(u32, u64, Vec<Bytes>)> {
    let batches = turn.committed.into_iter();
    batches.map(|batch| (batch.group, batch.last_index, batch.entries)).collect()
}

/// The committed content of one group.
pub fn content(committed: &[(u32, u64, Vec<Bytes>)], group: u32) -> Vec<Bytes> {
    let mine = committed.iter().filter(|batch| batch.0 == group);
    mine.flat_map(|batch| batch.2.iter().cloned()).collect()
}
