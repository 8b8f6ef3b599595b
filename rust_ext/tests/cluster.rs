//! Three nodes in one process that exchange packets, and packets that nobody honest would send.

mod support;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use _raftlog::errors::Error;
use _raftlog::members::{self, Kind};
use _raftlog::node::Node;
use _raftlog::packet::Outbox;
use _raftlog::simdisk::SimDisk;
use bytes::Bytes;
use raft::eraftpb::{ConfState, Entry, EntryType, Message, MessageType};
use support::{Dice, machines, settings};

const VOTERS: [u64; 3] = [1, 2, 3];

struct Cluster {
    disks: BTreeMap<u64, SimDisk>,
    nodes: BTreeMap<u64, Node>,
    wire: VecDeque<(u64, u64, Vec<u8>)>,
    cut: Vec<u64>,
    applied: BTreeMap<u64, Vec<Bytes>>,
    reads: Vec<(u32, Vec<u8>, u64)>,
}

impl Cluster {
    fn new() -> Self {
        let disks: BTreeMap<_, _> = VOTERS.map(|id| (id, SimDisk::new(id))).into();
        let mut cluster = Self {
            disks,
            nodes: BTreeMap::new(),
            wire: VecDeque::new(),
            cut: Vec::new(),
            applied: VOTERS.map(|id| (id, Vec::new())).into(),
            reads: Vec::new(),
        };
        for id in VOTERS {
            cluster.start(id);
        }
        cluster
    }

    fn start(&mut self, id: u64) {
        let disk = Arc::new(self.disks[&id].clone());
        let node = Node::new(disk, &settings(id, &VOTERS), &machines(&[0]), 1 << 16, true).unwrap();
        self.nodes.insert(id, node);
        self.applied.insert(id, Vec::new());
    }

    fn kill(&mut self, id: u64) {
        self.nodes.remove(&id);
        self.disks[&id].crash();
    }

    fn turn(&mut self) {
        for (id, node) in &mut self.nodes {
            let turn = node.ready().unwrap();
            for batch in turn.committed {
                node.applied(0, batch.last_index).unwrap();
                self.applied.get_mut(id).unwrap().extend(batch.entries);
            }
            self.reads.extend(turn.reads);
            self.wire.extend(turn.sends.into_iter().map(|(to, packet)| (*id, to, packet)));
            node.persist_step().unwrap();
        }
        for (from, to, packet) in std::mem::take(&mut self.wire) {
            if self.cut.contains(&from) || self.cut.contains(&to) {
                continue;
            }
            if let Some(node) = self.nodes.get_mut(&to) {
                assert_eq!(node.step(&packet), Vec::<String>::new());
            }
        }
    }

    fn run(&mut self, ticks: usize) {
        for _ in 0..ticks {
            self.nodes.values_mut().for_each(Node::tick);
            (0..4).for_each(|_| self.turn());
        }
    }

    fn leader(&self) -> u64 {
        let leading = self
            .nodes
            .iter()
            .filter(|(id, node)| !self.cut.contains(id) && node.groups()[0].is_leader());
        leading.map(|(id, _)| *id).next().expect("a leader")
    }

    fn propose(&mut self, text: &'static [u8]) {
        let leader = self.leader();
        self.nodes.get_mut(&leader).unwrap().propose(0, Bytes::from_static(text)).unwrap();
    }
}

#[test]
fn three_nodes_elect_replicate_and_survive_a_leader() {
    let mut cluster = Cluster::new();
    cluster.run(30);
    cluster.propose(b"one");
    cluster.run(4);
    let first = cluster.leader();
    cluster.kill(first);
    cluster.run(60);
    assert_ne!(cluster.leader(), first);
    cluster.propose(b"two");
    cluster.start(first);
    cluster.run(30);
    for id in VOTERS {
        assert_eq!(cluster.applied[&id], [&b"one"[..], b"two"], "node {id}");
    }
}

#[test]
fn a_cut_off_leader_loses_its_unacknowledged_entries_to_the_new_one() {
    let mut cluster = Cluster::new();
    cluster.run(30);
    let old = cluster.leader();
    cluster.cut.push(old);
    cluster.nodes.get_mut(&old).unwrap().propose(0, Bytes::from_static(b"lost")).unwrap();
    cluster.run(60);
    cluster.propose(b"kept");
    cluster.run(4);
    cluster.cut.clear();
    cluster.run(40);
    for id in VOTERS {
        assert_eq!(cluster.applied[&id], [&b"kept"[..]], "node {id}");
    }
    let refused = cluster.nodes.get_mut(&old).unwrap().propose(0, Bytes::from_static(b"x"));
    assert_eq!(matches!(refused, Err(Error::NotLeader)), cluster.leader() != old);
}

#[test]
fn leadership_moves_on_request_and_reads_are_confirmed_by_a_quorum() {
    let mut cluster = Cluster::new();
    cluster.run(30);
    let old = cluster.leader();
    let new = VOTERS.into_iter().find(|id| *id != old).unwrap();
    cluster.nodes.get_mut(&old).unwrap().transfer_leader(0, new).unwrap();
    cluster.run(3);
    assert_eq!(cluster.leader(), new);
    cluster.nodes.get_mut(&new).unwrap().read_index(0, b"r".to_vec()).unwrap();
    assert!(cluster.reads.is_empty());
    cluster.run(2);
    assert_eq!(cluster.reads[0].1, b"r");
    let denied = cluster.nodes.get_mut(&old).unwrap().read_index(0, b"r".to_vec());
    assert!(matches!(denied, Err(Error::NotLeader)));
}

#[test]
fn a_vote_leaves_only_after_it_is_durable() {
    let disk = Arc::new(SimDisk::new(1));
    let mut node = Node::new(disk, &settings(1, &VOTERS), &machines(&[0]), 1 << 16, true).unwrap();
    let mut ask = Message { from: 2, to: 1, term: 5, ..Message::default() };
    ask.set_msg_type(MessageType::MsgRequestVote);
    let mut outbox = Outbox::new(2);
    outbox.put(0, &ask);
    let packet = outbox.take().remove(0).1;
    // A voter that has just started may have promised a leader to elect nobody else.
    assert_eq!(node.step(&packet), Vec::<String>::new());
    assert!(!node.ready().unwrap().persisting);
    for _ in 0..settings(1, &VOTERS).election_ticks {
        node.tick();
    }
    assert_eq!(node.step(&packet), Vec::<String>::new());
    assert!(node.ready().unwrap().sends.is_empty());
    assert!(node.ready().unwrap().sends.is_empty());
    assert!(node.persist_step().unwrap());
    assert_eq!(node.ready().unwrap().sends.len(), 1);
}

const KINDS: [MessageType; 19] = [
    MessageType::MsgHup,
    MessageType::MsgBeat,
    MessageType::MsgPropose,
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgSnapshot,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgUnreachable,
    MessageType::MsgSnapStatus,
    MessageType::MsgCheckQuorum,
    MessageType::MsgTransferLeader,
    MessageType::MsgTimeoutNow,
    MessageType::MsgReadIndex,
    MessageType::MsgReadIndexResp,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
];

fn number(dice: &mut Dice) -> u64 {
    match dice.below(60) {
        0 => u64::MAX,
        1 => u64::MAX - dice.below(3),
        2 => 1 << 62,
        _ => dice.below(9),
    }
}

fn forged(dice: &mut Dice, from: u64, to: u64) -> Message {
    let mut message = Message {
        from,
        to: if dice.below(20) == 0 { dice.below(5) } else { to },
        term: number(dice),
        log_term: number(dice),
        index: number(dice),
        commit: number(dice),
        commit_term: number(dice),
        reject: dice.below(2) == 0,
        reject_hint: number(dice),
        request_snapshot: if dice.below(8) == 0 { number(dice) } else { 0 },
        ..Message::default()
    };
    message.set_msg_type(KINDS[usize::try_from(dice.below(19)).unwrap()]);
    let (mut index, count) = (message.index, dice.below(4));
    for _ in 0..count {
        index = if dice.below(8) == 0 { number(dice) } else { index.wrapping_add(1) };
        let mut entry = Entry { index, term: number(dice), ..Entry::default() };
        match dice.below(10) {
            0 => entry.set_entry_type(EntryType::EntryConfChange),
            1 => entry.set_entry_type(EntryType::EntryConfChangeV2),
            2 | 3 => {
                let kind = [Kind::AddLearner, Kind::AddVoter, Kind::Remove];
                let kind = kind[usize::try_from(dice.below(3)).unwrap()];
                let change = members::propose(&members_of(dice), kind, dice.below(7));
                let change = change.unwrap_or_default();
                entry = Entry { index: entry.index, term: entry.term, ..change };
            }
            _ => {}
        }
        message.mut_entries().push(entry);
    }
    if message.get_msg_type() == MessageType::MsgSnapshot || dice.below(20) == 0 {
        let state = members_of(dice);
        let meta = message.mut_snapshot().mut_metadata();
        (meta.index, meta.term) = (number(dice), number(dice));
        meta.set_conf_state(state);
        if dice.below(4) != 0 {
            message.clear_entries();
        }
    }
    message
}

fn members_of(dice: &mut Dice) -> ConfState {
    let (voters, learners) = match dice.below(4) {
        0 => {
            let voters = (0..dice.below(4)).map(|_| dice.below(5)).collect();
            (voters, (0..dice.below(3)).map(|_| 1 + dice.below(6)).collect())
        }
        1 => (vec![2, 3], vec![1]),
        2 => (vec![1], vec![]),
        _ => (vec![3, 1, 2], vec![4]),
    };
    ConfState { voters, learners, ..ConfState::default() }
}

#[test]
fn forged_messages_never_panic() {
    let (mut accepted, mut installed, mut changed) = (0, 0, 0);
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let disk = Arc::new(SimDisk::new(seed));
        let voters = if seed % 3 == 0 { &[][..] } else { &VOTERS };
        let mut node =
            Node::new(disk, &settings(1, voters), &machines(&[0]), 1 << 16, true).unwrap();
        for _ in 0..200 {
            let from = 2 + dice.below(2);
            let mut outbox = Outbox::new(if dice.below(4) == 0 { 4 } else { from });
            outbox.put(u32::try_from(dice.below(2)).unwrap(), &forged(&mut dice, from, 1));
            let offers = outbox.take_offers().into_iter().map(|(_, _, packet)| packet);
            let packets = outbox.take().into_iter().map(|(_, packet)| packet);
            for mut packet in offers.chain(packets).collect::<Vec<_>>() {
                if dice.below(10) == 0 {
                    let at = usize::try_from(dice.below(packet.len() as u64)).unwrap();
                    packet[at] ^= 1 << dice.below(8);
                }
                accepted += usize::from(node.step(&packet).is_empty());
            }
            match dice.below(6) {
                0 => node.tick(),
                1 => drop(node.persist_step().unwrap()),
                2 => (0..25).for_each(|_| node.tick()),
                3 => drop(node.propose(0, Bytes::from_static(b"own"))),
                _ => {
                    let turn = node.ready().unwrap();
                    changed += usize::from(turn.members.iter().any(|(_, it)| it.index > 0));
                    for install in turn.installs {
                        node.installed(0, install.position.index).unwrap();
                        installed += 1;
                    }
                }
            }
        }
    }
    assert!(accepted > 2000 && installed > 20 && changed > 20, "{accepted} {installed} {changed}");
}

#[test]
fn random_bytes_are_refused() {
    let disk = Arc::new(SimDisk::new(1));
    let mut node = Node::new(disk, &settings(1, &VOTERS), &machines(&[0]), 1 << 16, true).unwrap();
    let mut dice = Dice::new(3);
    for _ in 0..2000 {
        let length = usize::try_from(dice.below(80)).unwrap();
        let packet: Vec<u8> = (0..length).map(|_| dice.below(256).to_le_bytes()[0]).collect();
        assert!(!node.step(&packet).is_empty());
    }
}
