//! How a group's members change: whose messages count, which change may be proposed, and what
//! happens when one is delivered. The rules about configurations themselves are in `members.rs`.

use raft::StateRole;
use raft::eraftpb::{Entry, Message, MessageType};

use crate::errors::{Error, Result};
use crate::group::Group;
use crate::members::{self, Kind};
use crate::record::{Members, is_change};

impl Group {
    /// Why a message of this sender is not taken. A node that lags does not know yet who was added,
    /// so it listens to every leader and answers every candidate that it did not see removed; one
    /// that has no members yet, perhaps since it lost its disk, must not vote.
    ///
    /// # Errors
    /// The reason.
    pub fn check_sender(&self, message: &Message) -> std::result::Result<(), String> {
        use MessageType::{MsgAppend, MsgHeartbeat, MsgSnapshot};
        use MessageType::{MsgRequestPreVote, MsgRequestVote, MsgTimeoutNow};
        let (raft, kind, from) = (&self.raft.raft, message.get_msg_type(), message.from);
        let leads = matches!(kind, MsgAppend | MsgHeartbeat | MsgSnapshot);
        let asks = matches!(kind, MsgRequestVote | MsgRequestPreVote);
        if self.is_joining() {
            return if leads { Ok(()) } else { Err("this node has no members yet".to_owned()) };
        }
        if kind == MsgTimeoutNow && self.must_settle() {
            return Err("entries are being written".to_owned());
        }
        let is_welcome = raft.prs().get(from).is_some()
            || if self.removed.contains(&from) {
                leads && (message.term > raft.term || raft.leader_id == from)
            } else {
                leads || asks
            };
        if is_welcome { Ok(()) } else { Err(format!("node {from} is not a member")) }
    }

    /// The members if they are not what was answered last. Who hears that a node is gone may shut
    /// it down for ever, so the log must hold it first.
    pub fn members_news(&mut self) -> Option<Members> {
        let now = self.store().members();
        let is_durable = now.index == self.durable_members;
        if !is_durable || self.reported_members == Some(now.index) {
            return None;
        }
        let now = now.clone();
        self.reported_members = Some(now.index);
        Some(now)
    }

    /// Changes the members as delivered entries say, unless that was done before a restart; true
    /// when they changed. A node that may not vote any more does not lead.
    pub fn apply_changes(&mut self, entries: &[Entry]) -> bool {
        let known = self.store().members().index;
        for entry in entries.iter().filter(|entry| entry.index > known && is_change(entry)) {
            self.apply_change(entry);
        }
        let raft = &mut self.raft.raft;
        if !raft.promotable() && raft.state != StateRole::Follower {
            raft.become_follower(raft.term, 0);
        }
        self.store().members().index > known
    }

    fn apply_change(&mut self, entry: &Entry) {
        let before = self.store().members().state.clone();
        let Some(state) = members::after(&before, entry) else { return };
        for step in members::steps(&before, &state) {
            self.raft.apply_conf_change(&step).expect("raft-rs agrees on what a change may be");
        }
        self.removed.extend(before.voters.iter().chain(&before.learners));
        self.removed.retain(|id| !members::has(&state, *id));
        self.store_mut().set_members(Members { index: entry.index, state });
    }

    /// Why this change of members cannot be proposed now.
    ///
    /// # Errors
    /// `MembersBusy`, `Misuse`.
    pub fn check_change(&self, kind: Kind, node: u64) -> Result<()> {
        let members = self.store().members();
        if self.raft.raft.has_pending_conf() || members.index > self.applied() {
            let text = "the change of members before is not applied yet";
            return Err(Error::MembersBusy(text.to_owned()));
        }
        if kind != Kind::AddVoter || members.state.voters.contains(&node) {
            return Ok(());
        }
        if !members.state.learners.contains(&node) {
            return Err(Error::misuse("a node learns before it votes"));
        }
        // Were it asked for its vote before it knows the group, it could not answer.
        let progress = self.raft.raft.prs().get(node);
        if progress.is_some_and(|progress| progress.committed_index >= members.index) {
            return Ok(());
        }
        Err(Error::MembersBusy(format!("node {node} has not caught up")))
    }
}
