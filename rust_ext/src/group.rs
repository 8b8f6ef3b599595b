//! One Raft group: raft-rs over its store. How its state reaches the disk and the peers is decided
//! in `node.rs`, how its members change in `membership.rs`, how a snapshot replaces it in
//! `snapshots.rs`.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use raft::eraftpb::{ConfState, HardState, Message, MessageType};
use raft::{CAMPAIGN_TRANSFER, Config, RawNode, ReadOnlyOption, StateRole};
use slog::{Discard, Logger, o};

use crate::errors::{Error, Result};
use crate::record::{Checkpoint, Hard, Members};
use crate::segment::Segments;
use crate::snapshots::{Install, Restored, Wants};
use crate::store::{GroupStore, Slot};
use crate::turn::Ticket;

const MESSAGE_BYTES_MAX: u64 = 256 << 10;
const COMMITTED_BYTES_MAX: u64 = 4 << 20;
/// A peer that lags gets at most this many messages ahead of its answers, 16 MiB.
const MESSAGES_IN_FLIGHT_MAX: usize = 64;
/// Changes of members find room although proposals are refused.
const UNCOMMITTED_SPARE_BYTES: u64 = 1 << 20;

/// What a node does in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It takes proposals.
    Leader,
    /// It follows.
    Follower,
    /// It wants to lead.
    Candidate,
}

impl Role {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Candidate => "candidate",
        }
    }
}

/// Role, term and the leader's id, 0 when unknown.
pub type Standing = (Role, u64, u64);

/// How the groups of a node behave.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This node.
    pub node: u64,
    /// Members of a group that is new; none on a node that joins.
    pub voters: Vec<u64>,
    /// Ticks without a leader before an election.
    pub election_ticks: usize,
    /// Ticks between heartbeats.
    pub heartbeat_ticks: usize,
    /// Election timeouts differ by node, group and this number, and not by chance.
    pub election_seed: Option<u64>,
    /// Bytes of proposals that may wait to be committed in a group.
    pub uncommitted_bytes_max: u64,
}

/// See the top of the file.
pub struct Group {
    /// The consensus.
    pub raft: RawNode<GroupStore>,
    /// Blocks that this group waits for.
    pub waiting: usize,
    /// Term, vote or commit changed since they were last written.
    pub is_hard_changed: bool,
    /// The term that the log holds for sure.
    pub durable_term: u64,
    /// Index of the configuration that the log holds for sure.
    pub durable_members: u64,
    /// Index up to which committed entries were handed out.
    pub delivered: u64,
    /// A snapshot takes the place of log and state; until it has, the group is deaf and mute.
    pub install: Option<Install>,
    /// Peers that entries cannot help any more.
    pub wants: Wants,
    reported: Option<Standing>,
    /// Index of the configuration that was answered last.
    pub reported_members: Option<u64>,
    /// Nodes whose removal was delivered since the start.
    pub removed: BTreeSet<u64>,
    election_ticks: usize,
    promised_ticks: usize,
}

impl Group {
    /// A group as recovered, or a new one.
    ///
    /// # Errors
    /// `Corrupt` when log and state machine do not fit together.
    pub fn new(
        id: u32,
        settings: &Settings,
        segments: Arc<Segments>,
        found: Option<(Checkpoint, VecDeque<Slot>)>,
        applied: u64,
        restored: Option<&Restored>,
    ) -> Result<Self> {
        let (mut state, mut slots) =
            found.unwrap_or_else(|| (begin(&settings.voters), VecDeque::new()));
        let is_reset = restored.is_some_and(|restored| restored.reset(&mut state, &mut slots));
        check_applied(id, &state, slots.len(), applied)?;
        // The commit index may be written late, what was applied was committed.
        state.hard.commit = state.hard.commit.max(applied);
        let durable_term = state.hard.term;
        let mut store = GroupStore::new(segments, state, slots);
        let durable_members = store.members().index;
        store.catch_up_members(applied)?;
        let is_alone = store.members().state.voters == [settings.node];
        let logger = Logger::root(Discard, o!());
        let raft = RawNode::new(&config(id, settings, applied), store, &logger)
            .map_err(|error| Error::Misuse(error.to_string()))?;
        let election_ticks = settings.election_ticks;
        let mut group = Self {
            raft,
            waiting: 0,
            is_hard_changed: false,
            durable_term,
            durable_members,
            delivered: applied,
            install: is_reset.then_some(Install::Resetting { number: 0, index: applied }),
            wants: Wants::default(),
            reported: None,
            reported_members: None,
            removed: BTreeSet::new(),
            election_ticks,
            promised_ticks: election_ticks,
        };
        if is_alone && !is_reset {
            group.campaign();
        }
        Ok(group)
    }

    /// Time passes.
    pub fn tick(&mut self) {
        self.promised_ticks = self.promised_ticks.saturating_sub(1);
        if self.install.is_none() && !self.must_settle() {
            self.raft.tick();
            self.look_for_wants();
        }
    }

    /// Asks to be elected; a node that may not vote or is busy does nothing.
    pub fn campaign(&mut self) {
        let can_lead = self.raft.raft.promotable() && !self.is_leader();
        if can_lead && self.install.is_none() && !self.must_settle() {
            self.raft.campaign().expect("raft-rs takes a local message");
        }
    }

    /// A sole voter elects itself at once, and raft-rs relies on it that everything it has is
    /// durable by then.
    #[must_use]
    pub fn must_settle(&self) -> bool {
        let (log, id) = (&self.raft.raft.raft_log, self.raft.raft.id);
        let is_unsettled = self.waiting > 0 || log.persisted != log.last_index();
        is_unsettled && !self.is_leader() && self.store().members().state.voters == [id]
    }

    /// True for a question for a vote that came too early: a leader counts on it that whoever heard
    /// it elects nobody else for an election timeout. raft-rs forgets that when it restarts and when
    /// the term changes. An election that the leader itself asked for is welcome.
    #[must_use]
    pub fn is_too_early(&self, message: &Message) -> bool {
        use MessageType::{MsgRequestPreVote, MsgRequestVote};
        let asks = matches!(message.get_msg_type(), MsgRequestVote | MsgRequestPreVote);
        asks && self.promised_ticks > 0 && message.context != CAMPAIGN_TRANSFER
    }

    /// Begins the promise anew after a message of a leader was taken.
    pub fn heard(&mut self, kind: MessageType, from: u64) {
        let is_leader = self.raft.raft.leader_id == from;
        let kinds = [MessageType::MsgAppend, MessageType::MsgHeartbeat, MessageType::MsgSnapshot];
        if is_leader && kinds.contains(&kind) {
            self.promised_ticks = self.election_ticks;
        }
    }

    /// The group's side of the log.
    #[must_use]
    pub fn store(&self) -> &GroupStore {
        &self.raft.raft.raft_log.store
    }

    /// The group's side of the log, to change it.
    pub fn store_mut(&mut self) -> &mut GroupStore {
        &mut self.raft.raft.raft_log.store
    }

    /// Takes over a new term, vote and commit.
    pub fn set_hard(&mut self, state: &HardState) {
        let HardState { term, vote, commit, .. } = *state;
        self.store_mut().set_hard(Hard { term, vote, commit });
        self.is_hard_changed = true;
    }

    /// True when there is something to collect.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.install.is_none() && self.raft.has_ready()
    }

    /// What is durable once the open block is.
    #[must_use]
    pub fn ticket(&self, group: u32, number: u64, messages: Vec<Message>) -> Ticket {
        let (term, members) = (self.store().hard().term, self.store().members().index);
        Ticket { group, number, term, members, messages }
    }

    /// Takes over that it is.
    pub fn redeem(&mut self, ticket: &Ticket) {
        (self.durable_term, self.durable_members) = (ticket.term, ticket.members);
        self.waiting -= 1;
        self.raft.on_persist_ready(ticket.number);
        self.settle_install(ticket.number);
    }

    /// A sole voter leads before its term is durable. What it told learners by then, it could tell
    /// otherwise in the same term after a crash.
    #[must_use]
    pub fn is_term_durable(&self) -> bool {
        self.durable_term == self.raft.raft.term
    }

    /// True while this node does not know with whom it belongs to the group.
    #[must_use]
    pub fn is_joining(&self) -> bool {
        self.store().members().state.voters.is_empty()
    }

    /// True when this node leads the group.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.raft.raft.state == StateRole::Leader
    }

    /// Index up to which the state machine is.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.raft.raft.raft_log.applied
    }

    /// Index up to which entries are committed.
    #[must_use]
    pub fn commit(&self) -> u64 {
        self.raft.raft.raft_log.committed
    }

    /// Role, term and leader now.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let raft = &self.raft.raft;
        let role = match raft.state {
            StateRole::Leader => Role::Leader,
            StateRole::Follower => Role::Follower,
            StateRole::PreCandidate | StateRole::Candidate => Role::Candidate,
        };
        (role, raft.term, raft.leader_id)
    }

    /// Role, term and leader if they are not what was answered last.
    pub fn news(&mut self) -> Option<Standing> {
        let now = Some(self.standing());
        if self.reported == now {
            return None;
        }
        self.reported = now;
        now
    }

    /// Takes over what the state machine has applied.
    ///
    /// # Errors
    /// `Misuse` for an index that goes back or was never handed out.
    pub fn set_applied(&mut self, index: u64) -> Result<()> {
        if index < self.applied() || index > self.delivered {
            let (applied, delivered) = (self.applied(), self.delivered);
            let text = format!("applied {index} is not between {applied} and {delivered}");
            return Err(Error::Misuse(text));
        }
        // What a snapshot is about to replace does not matter any more.
        if self.install.is_some() {
            return Ok(());
        }
        self.raft.advance_apply_to(index);
        self.store_mut().evict(index);
        Ok(())
    }
}

/// Term 1, since a pre-vote in term 0 panics in raft-rs when priorities are used.
fn begin(voters: &[u64]) -> Checkpoint {
    let hard = Hard { term: 1, vote: 0, commit: 0 };
    let state = ConfState { voters: voters.to_vec(), ..ConfState::default() };
    Checkpoint { hard, members: Members { index: 0, state }, ..Checkpoint::default() }
}

fn check_applied(id: u32, state: &Checkpoint, live: usize, applied: u64) -> Result<()> {
    let last = state.compacted.index + live as u64;
    if (state.compacted.index..=last).contains(&applied) && state.hard.commit <= last {
        return Ok(());
    }
    let text = format!(
        "group {id}: the log holds entries {} to {last} with {} committed, but the state \
         machine applied {applied}: log and state do not belong together, restore both \
         from the same backup",
        state.compacted.index + 1,
        state.hard.commit,
    );
    Err(Error::Corrupt(text))
}

/// A range of one timeout, at least `ticks` and below twice as many. Seed 0 keeps neighbours apart.
fn chosen_election_ticks(seed: u64, at: u64, ticks: usize) -> (usize, usize) {
    let mixed = (seed ^ at.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let place = if seed == 0 { at } else { mixed };
    let spread = usize::try_from(place % ticks.max(1) as u64).unwrap_or(0);
    (ticks + spread, ticks + spread + 1)
}

fn config(id: u32, settings: &Settings, applied: u64) -> Config {
    let ticks = settings.election_ticks;
    let (min_election_tick, max_election_tick) = match settings.election_seed {
        Some(seed) => chosen_election_ticks(seed, settings.node + u64::from(id), ticks),
        None => (0, 0),
    };
    Config {
        id: settings.node,
        election_tick: ticks,
        heartbeat_tick: settings.heartbeat_ticks,
        applied,
        max_size_per_msg: MESSAGE_BYTES_MAX,
        max_inflight_msgs: MESSAGES_IN_FLIGHT_MAX,
        check_quorum: true,
        pre_vote: true,
        min_election_tick,
        max_election_tick,
        // A lease of raft-rs is not safe: a cut-off leader went on answering after a new one had
        // committed.
        read_only_option: ReadOnlyOption::Safe,
        skip_bcast_commit: true,
        batch_append: true,
        max_committed_size_per_ready: COMMITTED_BYTES_MAX,
        max_uncommitted_size: settings.uncommitted_bytes_max + UNCOMMITTED_SPARE_BYTES,
        ..Config::default()
    }
}
