//! What travels between peers: many messages to one peer in one packet, and the checks that a
//! message must pass before raft-rs may see it, since raft-rs panics on some that are malformed.

use std::collections::BTreeMap;

use protobuf::Message as _;
use raft::eraftpb::{EntryType, Message, MessageType};
use raft::{RawNode, StateRole, Storage};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 17;
/// Above this, arithmetic on terms and indexes could overflow.
const NUMBER_MAX: u64 = 1 << 62;

/// Packets under construction, one per peer.
pub struct Outbox {
    from: u64,
    packets: BTreeMap<u64, Vec<u8>>,
}

impl Outbox {
    /// An empty one.
    #[must_use]
    pub fn new(from: u64) -> Self {
        Self { from, packets: BTreeMap::new() }
    }

    /// Adds a message to its peer's packet.
    pub fn put(&mut self, group: u32, message: &Message) {
        let from = self.from;
        let packet = self.packets.entry(message.to).or_insert_with(|| {
            let mut packet = vec![VERSION];
            packet.extend_from_slice(&from.to_le_bytes());
            packet.extend_from_slice(&message.to.to_le_bytes());
            packet
        });
        packet.extend_from_slice(&group.to_le_bytes());
        packet.extend_from_slice(&message.compute_size().to_le_bytes());
        message.write_to_vec(packet).expect("a message of raft-rs can be encoded");
    }

    /// The packets by peer.
    #[must_use]
    pub fn take(self) -> Vec<(u64, Vec<u8>)> {
        self.packets.into_iter().collect()
    }
}

/// The messages of a packet, each with its group or with the reason why it is refused.
#[must_use]
pub fn open(packet: &[u8], own_id: u64) -> Vec<Result<(u32, Message), String>> {
    let Some((from, mut rest)) = read_header(packet, own_id) else {
        return vec![Err("not a packet for this node".to_owned())];
    };
    let mut messages = Vec::new();
    while !rest.is_empty() {
        let Some((group, encoded, after)) = split_message(rest) else {
            messages.push(Err("the packet is cut off".to_owned()));
            break;
        };
        rest = after;
        messages.push(match Message::parse_from_bytes(encoded) {
            Ok(message) if message.from == from => Ok((group, message)),
            Ok(message) => Err(format!("message of {} in a packet of {from}", message.from)),
            Err(error) => Err(format!("group {group}: malformed message: {error}")),
        });
    }
    messages
}

fn read_header(packet: &[u8], own_id: u64) -> Option<(u64, &[u8])> {
    let (header, rest) = packet.split_at_checked(HEADER_BYTES)?;
    let from = u64::from_le_bytes(header[1..9].try_into().ok()?);
    let to = u64::from_le_bytes(header[9..17].try_into().ok()?);
    (header[0] == VERSION && to == own_id).then_some((from, rest))
}

fn split_message(rest: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let (header, rest) = rest.split_at_checked(8)?;
    let group = u32::from_le_bytes(header[..4].try_into().ok()?);
    let length = u32::from_le_bytes(header[4..].try_into().ok()?) as usize;
    let (encoded, rest) = rest.split_at_checked(length)?;
    Some((group, encoded, rest))
}

/// Why this message must not reach raft-rs, or nothing.
///
/// # Errors
/// The reason.
pub fn check<T: Storage>(node: &RawNode<T>, message: &Message) -> Result<(), String> {
    let raft = &node.raft;
    if message.to != raft.id || message.from == raft.id {
        return Err("not from a peer to this node".to_owned());
    }
    if raft.prs().get(message.from).is_none() {
        return Err(format!("node {} is not a member", message.from));
    }
    if message.term == 0 {
        return Err("no term".to_owned());
    }
    let numbers = [
        message.term,
        message.index,
        message.log_term,
        message.commit,
        message.commit_term,
        message.reject_hint,
    ];
    if numbers.iter().any(|number| *number > NUMBER_MAX) {
        return Err("a number is out of range".to_owned());
    }
    if message.request_snapshot != 0 || message.has_snapshot() {
        return Err("snapshots do not travel in packets".to_owned());
    }
    check_kind(node, message)
}

fn check_kind<T: Storage>(node: &RawNode<T>, message: &Message) -> Result<(), String> {
    use MessageType as Kind;
    let log = &node.raft.raft_log;
    let is_asking = matches!(node.raft.state, StateRole::Candidate | StateRole::PreCandidate);
    match message.get_msg_type() {
        Kind::MsgAppend => check_entries(message),
        Kind::MsgHeartbeat if message.commit > log.last_index() => {
            Err("commits entries that are not here".to_owned())
        }
        Kind::MsgAppendResponse if !message.reject && message.index > log.last_index() => {
            Err("acknowledges entries that do not exist".to_owned())
        }
        // A vote is asked for only after everything is durable; raft-rs relies on it.
        Kind::MsgRequestVoteResponse | Kind::MsgRequestPreVoteResponse
            if is_asking && log.persisted != log.last_index() =>
        {
            Err("answers a vote that was not asked for".to_owned())
        }
        Kind::MsgHeartbeat
        | Kind::MsgHeartbeatResponse
        | Kind::MsgAppendResponse
        | Kind::MsgRequestVote
        | Kind::MsgRequestPreVote
        | Kind::MsgRequestVoteResponse
        | Kind::MsgRequestPreVoteResponse
        | Kind::MsgTimeoutNow => Ok(()),
        kind => Err(format!("{kind:?} does not come from a peer")),
    }
}

/// Term 0 stands for "no such entry" in raft-rs and would match any index behind the log.
fn check_entries(message: &Message) -> Result<(), String> {
    if message.index > 0 && message.log_term == 0 {
        return Err("the entry before has no term".to_owned());
    }
    let mut term = message.log_term.max(1);
    for (entry, index) in message.entries.iter().zip(message.index + 1..) {
        if entry.index != index {
            return Err("the entries have a gap".to_owned());
        }
        if entry.term < term || entry.term > message.term {
            return Err("the entries' terms are out of order".to_owned());
        }
        if entry.get_entry_type() != EntryType::EntryNormal {
            return Err("membership does not change in this way".to_owned());
        }
        term = entry.term;
    }
    Ok(())
}
