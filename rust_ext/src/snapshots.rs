//! How state moves when entries cannot help: what a leader offers, and how a node takes it over.
//! The state itself travels elsewhere; here it is a name.
//!
//! The order on the receiving side is: raft-rs accepts, the caller replaces its state machine, the
//! log begins anew behind the snapshot, and only then anything of the group is acknowledged. A crash
//! in between leaves a state machine that is ahead of the log; the next start is told so.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use raft::eraftpb::{ConfState, Snapshot};
use raft::{ProgressState, SnapshotStatus, Storage};

use crate::errors::{Error, Result};
use crate::group::Group;
use crate::members;
use crate::node::Node;
use crate::record::{Checkpoint, Members, Position};
use crate::store::Slot;
use crate::turn::Installation;

/// A snapshot's name may have this many bytes.
pub const DATA_BYTES_MAX: usize = 4096;
/// Ticks until a leader asks again for a snapshot that nobody provided: a second.
const WANT_TICKS: usize = 10;

/// How far a snapshot is on its way into a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Install {
    /// The state machine is to be replaced.
    Accepted {
        /// The caller knows.
        is_told: bool,
    },
    /// The log begins anew, which is not durable yet.
    Resetting {
        /// The `Ready` that does it.
        number: u64,
        /// The last entry that the snapshot holds.
        index: u64,
    },
}

/// A state machine was replaced by a snapshot, and the log may not know it.
#[derive(Debug, Clone)]
pub struct Restored {
    position: Position,
    members: ConfState,
}

impl Restored {
    /// The snapshot's last entry and its members.
    ///
    /// # Errors
    /// `Misuse` when no group can have such a snapshot.
    pub fn new(position: Position, voters: Vec<u64>, learners: Vec<u64>) -> Result<Self> {
        let members = ConfState { voters, learners, ..ConfState::default() };
        members::check_state(&members).map_err(Error::Misuse)?;
        if position.index == 0 || position.term == 0 {
            return Err(Error::misuse("a snapshot has an index and a term"));
        }
        Ok(Self { position, members })
    }

    /// Lets the log begin behind the snapshot unless it holds that entry; true when it did not.
    /// A vote of an earlier term is void, and no term is forgotten.
    pub fn reset(&self, state: &mut Checkpoint, slots: &mut VecDeque<Slot>) -> bool {
        let Position { index, term } = self.position;
        let ahead = index.checked_sub(state.compacted.index + 1);
        let held = ahead.and_then(|at| slots.get(usize::try_from(at).ok()?));
        if ahead.is_none() || held.is_some_and(|slot| slot.term == term) {
            return false;
        }
        if term > state.hard.term {
            (state.hard.term, state.hard.vote) = (term, 0);
        }
        state.hard.commit = state.hard.commit.max(index);
        state.compacted = self.position;
        state.members = Members { index, state: self.members.clone() };
        slots.clear();
        true
    }
}

/// Peers of a leader that need entries which are gone, and when to say so again.
#[derive(Default)]
pub struct Wants {
    pauses: BTreeMap<u64, usize>,
    now: Vec<u64>,
}

impl Wants {
    /// A tick has passed; the peers that need a snapshot, each with whether it answers.
    fn tick(&mut self, needy: impl Iterator<Item = (u64, bool)>) {
        let before = std::mem::take(&mut self.pauses);
        for (peer, is_active) in needy {
            let left = before.get(&peer).copied().unwrap_or(0);
            let is_due = left == 0 && is_active;
            if is_due {
                self.now.push(peer);
            }
            let left = if is_due { WANT_TICKS } else { left };
            self.pauses.insert(peer, left.saturating_sub(1));
        }
    }

    /// The peers to ask for.
    pub fn take(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.now)
    }
}

impl Group {
    /// Once per tick.
    pub fn look_for_wants(&mut self) {
        if !self.is_leader() {
            self.wants = Wants::default();
            return;
        }
        let mut needy = self.needy();
        needy.retain(|(peer, _)| !self.store().can_offer(*peer));
        self.wants.tick(needy.into_iter());
    }

    /// Peers that need entries which are gone, each with whether it answers.
    fn needy(&self) -> Vec<(u64, bool)> {
        let first = self.store().compacted().index + 1;
        let peers = self.raft.raft.prs().iter().filter(|(peer, progress)| {
            let is_fed = progress.state == ProgressState::Snapshot || progress.next_idx >= first;
            **peer != self.raft.raft.id && !is_fed
        });
        peers.map(|(peer, progress)| (*peer, progress.recent_active)).collect()
    }

    /// What the caller has to install and does not know yet.
    pub fn installation(&mut self, id: u32) -> Option<Installation> {
        if self.install != Some(Install::Accepted { is_told: false }) {
            return None;
        }
        self.install = Some(Install::Accepted { is_told: true });
        let snapshot =
            self.raft.snap().expect("an accepted snapshot is kept until it is installed");
        let (position, members) = contents(snapshot);
        Some(Installation { group: id, position, members, data: snapshot.data.clone() })
    }

    /// Notes that raft-rs took a snapshot with the last message, if it did.
    pub fn note_snapshot(&mut self) {
        if self.raft.snap().is_some() {
            self.install = Some(Install::Accepted { is_told: false });
        }
    }

    /// A `Ready` is durable; if it began the log anew, the group speaks again.
    pub fn settle_install(&mut self, durable: u64) {
        if let Some(Install::Resetting { number, index }) = self.install
            && number == durable
        {
            self.raft.advance_apply_to(index);
            self.install = None;
        }
    }
}

impl Node {
    /// The state at `index` can be fetched by this name. It is kept until it is replaced or dropped,
    /// and so are the entries behind it.
    ///
    /// # Errors
    /// `NotLeader`, `Misuse`, and `MembersBusy` when the members at that index are not known any
    /// more, so that a later state is needed.
    pub fn snapshot_ready(&mut self, id: u32, index: u64, data: Bytes) -> Result<()> {
        let group = self.leading(id)?;
        let store = group.store();
        if index == 0 || index > group.applied() || index < store.compacted().index {
            return Err(Error::misuse("a snapshot is of applied entries that are not compacted"));
        }
        if data.len() > DATA_BYTES_MAX {
            return Err(Error::misuse("a snapshot's name is too long"));
        }
        let Some(members) = store.members_at(index) else {
            let text = "who the members were at that index is not known";
            return Err(Error::MembersBusy(text.to_owned()));
        };
        let mut snapshot = Snapshot { data, ..Snapshot::default() };
        let meta = snapshot.mut_metadata();
        meta.index = index;
        meta.term = store.term(index).expect("the entry is live");
        meta.set_conf_state(members.state.clone());
        group.store_mut().set_offered(Some(snapshot));
        for (peer, _) in group.needy() {
            group.raft.raft.send_append(peer);
        }
        Ok(())
    }

    /// The state cannot be fetched any more.
    ///
    /// # Errors
    /// `Misuse`.
    pub fn drop_snapshot(&mut self, id: u32) -> Result<()> {
        self.group(id)?.store_mut().set_offered(None);
        Ok(())
    }

    /// What became of an offer: until this is said, the peer gets no entries.
    ///
    /// # Errors
    /// `Misuse`.
    pub fn report_snapshot(&mut self, id: u32, peer: u64, is_ok: bool) -> Result<()> {
        let status = if is_ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.group(id)?.raft.report_snapshot(peer, status);
        Ok(())
    }

    /// The state machine holds the snapshot: the log begins anew behind it.
    ///
    /// # Errors
    /// `Misuse` when no such snapshot was to be installed.
    pub fn installed(&mut self, id: u32, index: u64) -> Result<()> {
        let group = self.group(id)?;
        let snapshot = group.raft.snap().filter(|it| it.get_metadata().index == index);
        let is_told = group.install == Some(Install::Accepted { is_told: true });
        let Some((position, members)) = snapshot.filter(|_| is_told).map(contents) else {
            return Err(Error::misuse("no such snapshot is to be installed"));
        };
        let mut wish = group.raft.ready();
        assert!(wish.entries().is_empty(), "a group that installs takes no entries");
        group.store_mut().reset(position, members.clone());
        if let Some(state) = wish.hs() {
            group.set_hard(state);
        }
        let (number, messages) = (wish.number(), wish.take_persisted_messages());
        group.raft.advance_append_async(wish);
        group.install = Some(Install::Resetting { number, index });
        group.delivered = index;
        let ticket = group.ticket(id, number, messages);
        self.write_reset(id, position, &members);
        self.wait_for(ticket);
        Ok(())
    }

    /// Puts a reset into the open block.
    pub(crate) fn write_reset(&mut self, id: u32, position: Position, members: &Members) {
        self.log().put_reset(id, position);
        self.log().put_members(id, members);
        self.measure_checkpoint();
    }
}

fn contents(snapshot: &Snapshot) -> (Position, Members) {
    let meta = snapshot.get_metadata();
    let mut state = meta.get_conf_state().clone();
    state.voters.sort_unstable();
    state.learners.sort_unstable();
    let position = Position { index: meta.index, term: meta.term };
    (position, Members { index: meta.index, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_want_is_repeated_after_a_second_while_the_peer_answers() {
        let mut wants = Wants::default();
        let mut said = Vec::new();
        for tick in 0..25 {
            wants.tick([(2, tick != 0), (3, false)].into_iter());
            said.extend(wants.take().into_iter().map(|peer| (tick, peer)));
        }
        assert_eq!(said, [(1, 2), (11, 2), (21, 2)]);
    }

    #[test]
    fn a_peer_that_comes_back_needy_is_asked_for_at_once() {
        let mut wants = Wants::default();
        wants.tick([(2, true)].into_iter());
        wants.tick([].into_iter());
        wants.tick([(2, true)].into_iter());
        assert_eq!(wants.take(), [2, 2]);
    }

    fn restored(index: u64, term: u64) -> Restored {
        Restored::new(Position { index, term }, vec![1, 2], vec![]).unwrap()
    }

    #[test]
    fn a_log_that_ends_before_the_snapshot_begins_anew_and_keeps_its_term() {
        let mut state = Checkpoint::default();
        (state.hard.term, state.hard.vote, state.hard.commit) = (7, 2, 3);
        state.compacted = Position { index: 4, term: 2 };
        assert!(restored(9, 5).reset(&mut state, &mut VecDeque::new()));
        assert_eq!((state.hard.term, state.hard.vote, state.hard.commit), (7, 2, 9));
        assert_eq!((state.compacted.index, state.members.index), (9, 9));
        assert!(!restored(9, 5).reset(&mut state, &mut VecDeque::new()));
        assert!(restored(10, 8).reset(&mut state, &mut VecDeque::new()));
        assert_eq!((state.hard.term, state.hard.vote), (8, 0));
    }
}
