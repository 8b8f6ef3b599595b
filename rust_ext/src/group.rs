//! One Raft group: raft-rs over its store. How its state reaches the disk and the peers is decided
//! in `node.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use raft::eraftpb::{ConfState, Message, MessageType};
use raft::{CAMPAIGN_TRANSFER, Config, RawNode, ReadOnlyOption, StateRole};
use slog::{Discard, Logger, o};

use crate::errors::{Error, Result};
use crate::record::{Checkpoint, Hard};
use crate::segment::Segments;
use crate::store::{GroupStore, Slot};

const MESSAGE_BYTES_MAX: u64 = 1 << 20;
const COMMITTED_BYTES_MAX: u64 = 4 << 20;
const MESSAGES_IN_FLIGHT_MAX: usize = 256;

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
    /// Members of a group that is new.
    pub voters: Vec<u64>,
    /// Ticks without a leader before an election.
    pub election_ticks: usize,
    /// Ticks between heartbeats.
    pub heartbeat_ticks: usize,
    /// Election timeouts differ by node and group and not by chance.
    pub is_deterministic: bool,
}

/// See the top of the file.
pub struct Group {
    /// The consensus.
    pub raft: RawNode<GroupStore>,
    /// Blocks that this group waits for.
    pub waiting: usize,
    /// Term, vote or commit changed since they were last written.
    pub is_hard_changed: bool,
    /// Index up to which committed entries were handed out.
    pub delivered: u64,
    reported: Option<Standing>,
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
    ) -> Result<Self> {
        let (mut state, slots) =
            found.unwrap_or_else(|| (begin(&settings.voters), VecDeque::new()));
        let last = state.compacted.index + slots.len() as u64;
        if applied < state.compacted.index || applied > last || state.hard.commit > last {
            let text = format!(
                "group {id}: the log holds entries {} to {last} with {} committed, but the state \
                 machine applied {applied}: log and state do not belong together, restore both \
                 from the same backup",
                state.compacted.index + 1,
                state.hard.commit,
            );
            return Err(Error::Corrupt(text));
        }
        // The commit index may be written late, what was applied was committed.
        state.hard.commit = state.hard.commit.max(applied);
        let is_alone = state.members.voters == [settings.node];
        let store = GroupStore::new(segments, state, slots);
        let logger = Logger::root(Discard, o!());
        let raft = RawNode::new(&config(id, settings, applied), store, &logger)
            .map_err(|error| Error::Misuse(error.to_string()))?;
        let election_ticks = settings.election_ticks;
        let mut group = Self {
            raft,
            waiting: 0,
            is_hard_changed: false,
            delivered: applied,
            reported: None,
            election_ticks,
            promised_ticks: election_ticks,
        };
        if is_alone {
            group.raft.campaign().map_err(|error| Error::Misuse(error.to_string()))?;
        }
        Ok(group)
    }

    /// Time passes.
    pub fn tick(&mut self) {
        self.promised_ticks = self.promised_ticks.saturating_sub(1);
        self.raft.tick();
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
        if is_leader && matches!(kind, MessageType::MsgAppend | MessageType::MsgHeartbeat) {
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
        self.raft.advance_apply_to(index);
        self.store_mut().evict(index);
        Ok(())
    }
}

/// Term 1, since a pre-vote in term 0 panics in raft-rs when priorities are used.
fn begin(voters: &[u64]) -> Checkpoint {
    let hard = Hard { term: 1, vote: 0, commit: 0 };
    let members = ConfState { voters: voters.to_vec(), ..ConfState::default() };
    Checkpoint { hard, members, ..Checkpoint::default() }
}

fn config(id: u32, settings: &Settings, applied: u64) -> Config {
    let ticks = settings.election_ticks;
    let spread = (settings.node + u64::from(id)) % ticks.max(1) as u64;
    let chosen = ticks + usize::try_from(spread).unwrap_or(0);
    let (min_election_tick, max_election_tick) =
        if settings.is_deterministic { (chosen, chosen + 1) } else { (0, 0) };
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
        ..Config::default()
    }
}
