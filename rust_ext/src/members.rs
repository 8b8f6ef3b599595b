//! Who belongs to a group: which entries may change it, and what follows from them. Pure rules;
//! when they are applied is decided in `membership.rs`.
//!
//! A change adds or removes one node. Its entry also carries the whole configuration that follows,
//! since a node that joins and reads the log from its beginning has no other way to know with whom
//! the group began.

use protobuf::Message as _;
use raft::eraftpb::{
    ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState, Entry,
    EntryType,
};

/// Node ids are below this.
pub const NODE_LIMIT: u64 = 1 << 16;
/// Members of a group; far more than anybody runs, so that nothing hostile becomes large.
const MEMBERS_MAX: usize = 64;

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It gets entries and does not count.
    AddLearner,
    /// It votes.
    AddVoter,
    /// It is gone.
    Remove,
}

impl Kind {
    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "add-learner" => Some(Self::AddLearner),
            "add-voter" => Some(Self::AddVoter),
            "remove" => Some(Self::Remove),
            _ => None,
        }
    }

    fn change_type(self) -> ConfChangeType {
        match self {
            Self::AddLearner => ConfChangeType::AddLearnerNode,
            Self::AddVoter => ConfChangeType::AddNode,
            Self::Remove => ConfChangeType::RemoveNode,
        }
    }
}

/// True for a member, voter or learner.
#[must_use]
pub fn has(state: &ConfState, node: u64) -> bool {
    state.voters.contains(&node) || state.learners.contains(&node)
}

/// The entry for a change, or nothing when nobody would be left to vote.
#[must_use]
pub fn propose(state: &ConfState, kind: Kind, node: u64) -> Option<Entry> {
    let mut single = ConfChangeSingle { node_id: node, ..ConfChangeSingle::default() };
    single.set_change_type(kind.change_type());
    let mut change = ConfChangeV2::default();
    let after = changed(state, &single)?;
    change.set_changes(vec![single].into());
    change.set_context(encode(&after).into());
    let mut entry = Entry { data: encode(&change).into(), ..Entry::default() };
    entry.set_entry_type(EntryType::EntryConfChangeV2);
    Some(entry)
}

fn encode(message: &impl protobuf::Message) -> Vec<u8> {
    message.write_to_bytes().expect("a message of raft-rs can be encoded")
}

/// The change in an entry.
///
/// # Errors
/// Why it is not one that we make.
pub fn read(entry: &Entry) -> Result<ConfChangeV2, String> {
    if entry.get_entry_type() != EntryType::EntryConfChangeV2 {
        return Err("a change of members has another form".to_owned());
    }
    let change = ConfChangeV2::parse_from_bytes(&entry.data)
        .map_err(|error| format!("malformed change of members: {error}"))?;
    if change.get_transition() != ConfChangeTransition::Auto || change.changes.len() != 1 {
        return Err("members change one at a time".to_owned());
    }
    check_ids(&[change.changes[0].node_id])?;
    check_state(&whole(&change)?)?;
    Ok(change)
}

fn whole(change: &ConfChangeV2) -> Result<ConfState, String> {
    ConfState::parse_from_bytes(&change.context)
        .map_err(|error| format!("malformed list of members: {error}"))
}

/// Why this is no configuration that a group could have.
///
/// # Errors
/// The reason.
pub fn check_state(state: &ConfState) -> Result<(), String> {
    let is_joint = !state.voters_outgoing.is_empty() || !state.learners_next.is_empty();
    if is_joint || state.auto_leave {
        return Err("members change one at a time".to_owned());
    }
    if state.voters.is_empty() {
        return Err("nobody votes".to_owned());
    }
    check_ids(&[&state.voters[..], &state.learners[..]].concat())
}

fn check_ids(ids: &[u64]) -> Result<(), String> {
    if ids.len() > MEMBERS_MAX || ids.iter().any(|id| !(1..NODE_LIMIT).contains(id)) {
        return Err("a node id is out of range".to_owned());
    }
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() == ids.len() { Ok(()) } else { Err("a node is named twice".to_owned()) }
}

/// The configuration after an entry, or nothing when the entry changes nothing: a group without
/// voters could never change again, so the last one stays.
#[must_use]
pub fn after(state: &ConfState, entry: &Entry) -> Option<ConfState> {
    let change = read(entry).ok()?;
    if state.voters.is_empty() { whole(&change).ok() } else { changed(state, &change.changes[0]) }
}

fn changed(state: &ConfState, single: &ConfChangeSingle) -> Option<ConfState> {
    let without = |ids: &[u64]| -> Vec<u64> {
        ids.iter().copied().filter(|id| *id != single.node_id).collect()
    };
    let (mut voters, mut learners) = (without(&state.voters), without(&state.learners));
    match single.get_change_type() {
        ConfChangeType::AddNode => voters.push(single.node_id),
        ConfChangeType::AddLearnerNode => learners.push(single.node_id),
        ConfChangeType::RemoveNode => {}
    }
    voters.sort_unstable();
    learners.sort_unstable();
    (!voters.is_empty()).then(|| ConfState { voters, learners, ..ConfState::default() })
}

/// The steps that take raft-rs from one configuration to the next: one, or for a node that joins
/// one for each member.
#[must_use]
pub fn steps(from: &ConfState, to: &ConfState) -> Vec<ConfChangeV2> {
    let is_new = |old: &[u64], id: &u64| !old.contains(id);
    let added = to.voters.iter().filter(|id| is_new(&from.voters, id));
    let taught = to.learners.iter().filter(|id| is_new(&from.learners, id));
    let gone = from.voters.iter().chain(&from.learners).filter(|id| !has(to, **id));
    let added = added.map(|id| (Kind::AddVoter, *id));
    let taught = taught.map(|id| (Kind::AddLearner, *id));
    let gone = gone.map(|id| (Kind::Remove, *id));
    added.chain(taught).chain(gone).map(|(kind, id)| step(kind, id)).collect()
}

fn step(kind: Kind, node_id: u64) -> ConfChangeV2 {
    let mut single = ConfChangeSingle { node_id, ..ConfChangeSingle::default() };
    single.set_change_type(kind.change_type());
    let mut change = ConfChangeV2::default();
    change.set_changes(vec![single].into());
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(voters: &[u64], learners: &[u64]) -> ConfState {
        ConfState { voters: voters.to_vec(), learners: learners.to_vec(), ..ConfState::default() }
    }

    #[test]
    fn a_change_leads_to_what_it_says_from_the_old_members_and_from_none() {
        let cases = [
            (Kind::AddLearner, 3, state(&[1, 2], &[3])),
            (Kind::AddVoter, 3, state(&[1, 2, 3], &[])),
            (Kind::AddVoter, 2, state(&[1, 2], &[])),
            (Kind::Remove, 2, state(&[1], &[])),
            (Kind::AddLearner, 2, state(&[1], &[2])),
        ];
        let before = state(&[1, 2], &[]);
        for (kind, node, expected) in cases {
            let entry = propose(&before, kind, node).unwrap();
            assert_eq!(after(&before, &entry), Some(expected.clone()), "{kind:?} {node}");
            assert_eq!(after(&ConfState::default(), &entry), Some(expected), "{kind:?} {node}");
        }
        assert_eq!(propose(&state(&[1], &[2]), Kind::Remove, 1), None);
    }

    #[test]
    fn the_last_voter_stays() {
        let entry = propose(&state(&[1, 2], &[3]), Kind::Remove, 1).unwrap();
        assert_eq!(after(&state(&[1], &[3]), &entry), None);
    }

    #[test]
    fn changes_of_another_form_are_refused() {
        let good = propose(&state(&[1], &[]), Kind::AddLearner, 2).unwrap();
        assert!(read(&good).is_ok());
        let mut bad = Vec::new();
        let mut version_1 = good.clone();
        version_1.set_entry_type(EntryType::EntryConfChange);
        bad.push(version_1);
        bad.push(Entry { data: vec![255; 9].into(), ..good.clone() });
        bad.push(Entry { data: Vec::new().into(), ..good.clone() });
        for forge in [
            |change: &mut ConfChangeV2| change.set_transition(ConfChangeTransition::Explicit),
            |change: &mut ConfChangeV2| change.mut_changes().push(ConfChangeSingle::default()),
            |change: &mut ConfChangeV2| change.changes[0].node_id = 0,
            |change: &mut ConfChangeV2| change.changes[0].node_id = NODE_LIMIT,
            |change: &mut ConfChangeV2| change.context.clear(),
            |change: &mut ConfChangeV2| change.context = encode(&state(&[1], &[1])).into(),
        ] {
            let mut change = read(&good).unwrap();
            forge(&mut change);
            bad.push(Entry { data: encode(&change).into(), ..good.clone() });
        }
        for entry in bad {
            assert!(read(&entry).is_err(), "{entry:?}");
        }
    }

    #[test]
    fn raft_takes_the_same_steps() {
        let nobody = ConfState::default();
        assert_eq!(steps(&nobody, &state(&[1, 2], &[3])).len(), 3);
        assert_eq!(steps(&state(&[1], &[2]), &state(&[1, 2], &[])).len(), 1);
        assert_eq!(steps(&state(&[1, 2], &[]), &state(&[1], &[])).len(), 1);
        assert_eq!(steps(&state(&[1, 2], &[]), &state(&[1], &[2])).len(), 1);
        assert_eq!(steps(&state(&[1], &[]), &state(&[1], &[])).len(), 0);
    }
}
