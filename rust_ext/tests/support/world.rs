//! Nodes that join, leave, crash and lose messages, each with a state machine that is a list. What
//! must hold at every moment is checked as entries are delivered: all lists are parts of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use _raftlog::errors::Error;
use _raftlog::members::Kind;
use _raftlog::node::{Machine, Node};
use _raftlog::record::Position;
use _raftlog::simdisk::SimDisk;
use _raftlog::snapshots::Restored;
use _raftlog::turn::{Installation, Turn};
use bytes::Bytes;
use raft::eraftpb::ConfState;

use super::{Dice, settings};

pub const IDS: [u64; 5] = [1, 2, 3, 4, 5];
const SEGMENT_BYTES: u64 = 4096;

/// A state machine, and what it would be after a crash.
#[derive(Default, Clone)]
pub struct Engine {
    pub list: Vec<Bytes>,
    pub applied: u64,
    pub flushed: (usize, u64),
    pub restored: Option<Restored>,
}

pub struct Host {
    pub node: Node,
    pub disk: SimDisk,
    pub engine: Engine,
    pub install: Option<(Installation, bool)>,
    /// The members that it was told last.
    pub told: Option<ConfState>,
}

pub struct World {
    pub dice: Dice,
    pub hosts: BTreeMap<u64, Host>,
    /// From, to, packet.
    pub wire: Vec<(u64, u64, Vec<u8>)>,
    /// Group's leader, peer, packet.
    pub offers: Vec<(u64, u64, Vec<u8>)>,
    /// States that can be fetched, by name.
    pub saved: BTreeMap<Vec<u8>, (u64, Vec<Bytes>)>,
    /// Everything that was ever delivered.
    pub canon: Vec<Bytes>,
    lengths: BTreeMap<u64, usize>,
    serial: u64,
    is_begun: bool,
    pub installs: u64,
    pub changes: u64,
    pub crashes: u64,
}

fn start(id: u64, disk: &SimDisk, engine: &Engine, voters: &[u64]) -> Node {
    let machine = Machine { applied: engine.applied, restored: engine.restored.clone() };
    let disk = Arc::new(disk.clone());
    Node::new(disk, &settings(id, voters), &[machine], SEGMENT_BYTES, true).unwrap()
}

impl World {
    pub fn new(seed: u64) -> Self {
        let hosts = IDS.map(|id| {
            let (disk, engine) = (SimDisk::new(seed * 8 + id), Engine::default());
            let node = start(id, &disk, &engine, if id == 1 { &[1] } else { &[] });
            (id, Host { node, disk, engine, install: None, told: None })
        });
        Self {
            dice: Dice::new(seed),
            hosts: hosts.into(),
            wire: Vec::new(),
            offers: Vec::new(),
            saved: BTreeMap::new(),
            canon: Vec::new(),
            lengths: BTreeMap::new(),
            serial: 0,
            is_begun: false,
            installs: 0,
            changes: 0,
            crashes: 0,
        }
    }

    pub fn pick(&mut self) -> u64 {
        IDS[usize::try_from(self.dice.below(5)).unwrap()]
    }

    pub fn host(&mut self, id: u64) -> &mut Host {
        self.hosts.get_mut(&id).unwrap()
    }

    pub fn leader(&self) -> Option<u64> {
        let leading = self.hosts.iter().filter(|(_, host)| host.node.groups()[0].is_leader());
        leading.max_by_key(|(_, host)| host.node.groups()[0].standing().1).map(|(id, _)| *id)
    }

    /// Voters and learners as the leader knows them.
    pub fn members(&self) -> Option<(Vec<u64>, Vec<u64>)> {
        let state = &self.hosts[&self.leader()?].node.groups()[0].store().members().state;
        Some((state.voters.clone(), state.learners.clone()))
    }

    pub fn turn(&mut self, id: u64) {
        let turn = self.host(id).node.ready().unwrap();
        let Turn { sends, committed, wanted, offers, installs, members, .. } = turn;
        for (_, members) in members {
            self.host(id).told = Some(members.state);
        }
        self.wire.extend(sends.into_iter().map(|(to, packet)| (id, to, packet)));
        self.offers.extend(offers.into_iter().map(|(_, to, packet)| (id, to, packet)));
        self.is_begun |= !committed.is_empty();
        for batch in committed {
            self.deliver(id, batch.last_index, batch.entries);
        }
        for install in installs {
            assert!(self.host(id).install.is_none());
            self.host(id).install = Some((install, false));
        }
        if !wanted.is_empty() {
            self.save(id);
        }
    }

    fn deliver(&mut self, id: u64, last_index: u64, entries: Vec<Bytes>) {
        let host = self.hosts.get_mut(&id).unwrap();
        assert!(host.install.is_none(), "delivered while a snapshot is installed");
        for entry in entries {
            let at = host.engine.list.len();
            match self.canon.get(at) {
                Some(known) => assert_eq!(*known, entry, "node {id} differs at {at}"),
                None => self.canon.push(entry.clone()),
            }
            host.engine.list.push(entry);
        }
        assert!(last_index > host.engine.applied);
        let length = *self.lengths.entry(last_index).or_insert(host.engine.list.len());
        assert_eq!(length, host.engine.list.len(), "node {id} at index {last_index}");
        host.engine.applied = last_index;
        host.node.applied(0, last_index).unwrap();
    }

    pub fn propose(&mut self, id: u64) {
        self.serial += 1;
        let entry = Bytes::from(format!("entry {}", self.serial));
        match self.host(id).node.propose(0, entry) {
            Ok(()) | Err(Error::NotLeader) => {}
            Err(error) => panic!("{error}"),
        }
    }

    pub fn change(&mut self, id: u64, kind: Kind, node: u64) -> bool {
        match self.host(id).node.propose_members(0, kind, node) {
            Ok(()) => {
                self.changes += 1;
                true
            }
            Err(Error::NotLeader | Error::MembersBusy(_) | Error::Misuse(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn flush(&mut self, id: u64) {
        let engine = &mut self.host(id).engine;
        engine.flushed = (engine.list.len(), engine.applied);
    }

    pub fn compact(&mut self, id: u64) {
        let host = self.host(id);
        if host.install.is_none() {
            host.node.compact(0, host.engine.flushed.1).unwrap();
        }
    }

    /// A leader was asked for its state.
    fn save(&mut self, id: u64) {
        let host = self.hosts.get_mut(&id).unwrap();
        let name = format!("{id} at {}", host.engine.applied).into_bytes();
        let state = (host.engine.applied, host.engine.list.clone());
        match host.node.snapshot_ready(0, state.0, Bytes::from(name.clone())) {
            Ok(()) => drop(self.saved.insert(name, state)),
            Err(Error::NotLeader | Error::MembersBusy(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// An offer reaches its peer, or is lost; the leader learns which.
    pub fn offer(&mut self, at: usize, is_lost: bool) {
        let (from, to, packet) = self.offers.swap_remove(at);
        let is_ok = !is_lost && self.host(to).node.step(&packet).is_empty();
        self.host(from).node.report_snapshot(0, to, is_ok).unwrap();
    }

    /// One step of installing: first the state machine, then the log.
    pub fn install(&mut self, id: u64) {
        let host = self.hosts.get_mut(&id).unwrap();
        match host.install.take() {
            Some((install, false)) => {
                let Position { index, term } = install.position;
                let (saved_index, list) = self.saved[&install.data[..]].clone();
                assert_eq!(saved_index, index);
                let state = install.members.state.clone();
                let restored =
                    Restored::new(Position { index, term }, state.voters, state.learners);
                let flushed = (list.len(), index);
                let restored = Some(restored.unwrap());
                host.engine = Engine { list, applied: index, flushed, restored };
                host.install = Some((install, true));
            }
            Some((install, true)) => {
                host.node.installed(0, install.position.index).unwrap();
                self.installs += 1;
            }
            None => {}
        }
    }

    pub fn persist(&mut self, id: u64) {
        self.host(id).node.persist_step().unwrap();
    }

    pub fn crash(&mut self, id: u64) {
        self.crashes += 1;
        let host = self.hosts.get_mut(&id).unwrap();
        host.disk.crash();
        host.install = None;
        host.told = None;
        let (length, applied) = host.engine.flushed;
        host.engine.list.truncate(length);
        host.engine.applied = applied;
        // The log of the first node holds its members, except when it crashed before it held
        // anything.
        let voters: &[u64] = if id == 1 && !self.is_begun { &[1] } else { &[] };
        host.node = start(id, &host.disk, &host.engine, voters);
        let gone = self.offers.iter().filter(|offer| offer.0 == id).count();
        if gone > 0 {
            self.offers.retain(|offer| offer.0 != id);
        }
    }

    /// The node comes back with nothing.
    pub fn wipe(&mut self, id: u64) {
        let engine = Engine::default();
        let disk = SimDisk::new(self.dice.below(1 << 20));
        let node = start(id, &disk, &engine, &[]);
        self.hosts.insert(id, Host { node, disk, engine, install: None, told: None });
    }

    pub fn send(&mut self, at: usize) {
        let (_, to, packet) = self.wire.swap_remove(at);
        self.host(to).node.step(&packet);
    }

    /// A quiet time: everything arrives in order and everybody does their part.
    pub fn calm(&mut self, ticks: usize) {
        for _ in 0..ticks {
            self.hosts.values_mut().for_each(|host| host.node.tick());
            for _ in 0..4 {
                for id in IDS {
                    self.turn(id);
                    self.persist(id);
                    self.install(id);
                    self.install(id);
                }
                for (_, to, packet) in std::mem::take(&mut self.wire) {
                    self.host(to).node.step(&packet);
                }
                while !self.offers.is_empty() {
                    self.offer(0, false);
                }
            }
        }
    }

    /// A tick of the same without one node.
    pub fn calm_without(&mut self, away: u64) {
        for id in IDS.into_iter().filter(|id| *id != away) {
            self.host(id).node.tick();
        }
        for _ in 0..4 {
            for id in IDS.into_iter().filter(|id| *id != away) {
                self.turn(id);
                self.persist(id);
            }
            for (_, to, packet) in std::mem::take(&mut self.wire) {
                if to != away {
                    self.host(to).node.step(&packet);
                }
            }
        }
    }

    /// All members hold everything that was ever delivered.
    pub fn check_agreement(&mut self) {
        let leader = self.leader().expect("a leader");
        self.propose(leader);
        self.calm(20);
        let (voters, learners) = self.members().expect("a leader");
        for id in voters.iter().chain(&learners) {
            let list = &self.hosts[id].engine.list;
            assert_eq!(list.len(), self.canon.len(), "node {id} of {voters:?} and {learners:?}");
        }
    }
}
