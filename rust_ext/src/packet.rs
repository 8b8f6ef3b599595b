//! What travels between peers: many messages to one peer in one packet, and the checks that a
//! message must pass before raft-rs may see it, since raft-rs panics on some that are malformed.

use std::collections::BTreeMap;

use protobuf::Message as _;
use raft::eraftpb::{Entry, Message, MessageType};
use raft::{RawNode, StateRole, Storage};

use crate::members;
use crate::record;
use crate::snapshots::DATA_BYTES_MAX;

const VERSION: u8 = 1;
/// Set in the version of a packet that carries entries: whoever sends it may let others pass.
const BULK: u8 = 0x80;
const HEADER_BYTES: usize = 17;
/// Above this, arithmetic on terms and indexes could overflow.
const NUMBER_MAX: u64 = 1 << 62;
/// A packet is closed before it grows beyond this; a single entry may be larger.
const PACKET_BYTES_MAX: usize = 4 << 20;
/// raft-rs gathers all that a peer lacks in one message; this is where it is cut.
const PART_BYTES_MAX: usize = 1 << 20;

/// Packets under construction.
pub struct Outbox {
    from: u64,
    posts: BTreeMap<u64, Post>,
    offers: Vec<(u32, u64, Vec<u8>)>,
}

/// What goes to one peer: votes, heartbeats and answers do not stand behind entries.
#[derive(Default)]
struct Post {
    urgent: Vec<Vec<u8>>,
    bulk: Vec<Vec<u8>>,
    has_entries: bool,
}

impl Outbox {
    /// An empty one.
    #[must_use]
    pub fn new(from: u64) -> Self {
        Self { from, posts: BTreeMap::new(), offers: Vec::new() }
    }

    /// True when nobody is sent anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.posts.is_empty() && self.offers.is_empty()
    }

    /// Adds a message to its peer's packets, or to the offers if it announces a snapshot.
    pub fn put(&mut self, group: u32, message: &Message) {
        let header = header(self.from, message.to);
        if message.get_msg_type() == MessageType::MsgSnapshot {
            let mut packet = header.to_vec();
            write(&mut packet, group, message);
            self.offers.push((group, message.to, packet));
            return;
        }
        let post = self.posts.entry(message.to).or_default();
        // Appends keep their order among themselves: one that overtakes another is refused.
        if message.get_msg_type() != MessageType::MsgAppend {
            return push(&mut post.urgent, &header, group, message);
        }
        post.has_entries |= !message.entries.is_empty();
        if message.entries.len() < 2 || message.compute_size() as usize <= PART_BYTES_MAX {
            return push(&mut post.bulk, &header, group, message);
        }
        for part in parts(message) {
            push(&mut post.bulk, &header, group, &part);
        }
    }

    /// Group, peer and packet of the snapshots that were announced.
    #[must_use]
    pub fn take_offers(&mut self) -> Vec<(u32, u64, Vec<u8>)> {
        std::mem::take(&mut self.offers)
    }

    /// The packets by peer, the urgent ones first.
    #[must_use]
    pub fn take(self) -> Vec<(u64, Vec<u8>)> {
        let posts = self.posts.into_iter();
        posts.flat_map(|(to, post)| post.take().into_iter().map(move |it| (to, it))).collect()
    }
}

impl Post {
    fn take(mut self) -> Vec<Vec<u8>> {
        if let (false, [urgent], [bulk]) =
            (self.has_entries, &mut self.urgent[..], &mut self.bulk[..])
        {
            urgent.extend_from_slice(&bulk[HEADER_BYTES..]);
            self.bulk.clear();
        }
        for packet in self.bulk.iter_mut().filter(|_| self.has_entries) {
            packet[0] |= BULK;
        }
        self.urgent.append(&mut self.bulk);
        self.urgent
    }
}

fn header(from: u64, to: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0] = VERSION;
    header[1..9].copy_from_slice(&from.to_le_bytes());
    header[9..].copy_from_slice(&to.to_le_bytes());
    header
}

fn push(packets: &mut Vec<Vec<u8>>, header: &[u8], group: u32, message: &Message) {
    let bytes = message.compute_size() as usize + 8;
    match packets.last_mut() {
        Some(packet) if packet.len() + bytes <= PACKET_BYTES_MAX => write(packet, group, message),
        _ => {
            let mut packet = header.to_vec();
            write(&mut packet, group, message);
            packets.push(packet);
        }
    }
}

fn write(packet: &mut Vec<u8>, group: u32, message: &Message) {
    packet.extend_from_slice(&group.to_le_bytes());
    packet.extend_from_slice(&message.compute_size().to_le_bytes());
    message.write_to_vec(packet).expect("a message of raft-rs can be encoded");
}

/// The same entries in several messages, as if they had been sent one after the other.
fn parts(message: &Message) -> Vec<Message> {
    let mut parts: Vec<Message> = Vec::new();
    let mut bytes = 0;
    for entry in message.get_entries() {
        bytes += record::entry_bytes(entry);
        if parts.is_empty() || bytes > PART_BYTES_MAX {
            bytes = record::entry_bytes(entry);
            let before = parts.last().and_then(|part| part.entries.last());
            let before = before.map_or((message.index, message.log_term), place);
            parts.push(part(message, before));
        }
        if let Some(part) = parts.last_mut() {
            part.mut_entries().push(entry.clone());
        }
    }
    parts
}

fn place(entry: &Entry) -> (u64, u64) {
    (entry.index, entry.term)
}

fn part(message: &Message, (index, log_term): (u64, u64)) -> Message {
    let Message { from, to, term, commit, .. } = *message;
    let mut part = Message { from, to, term, commit, index, log_term, ..Message::default() };
    part.set_msg_type(MessageType::MsgAppend);
    part
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
    (header[0] & !BULK == VERSION && to == own_id).then_some((from, rest))
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
    if message.request_snapshot != 0 {
        return Err("snapshots are not asked for in this way".to_owned());
    }
    let is_snapshot = message.get_msg_type() == MessageType::MsgSnapshot;
    if message.has_snapshot() != is_snapshot {
        return Err("a snapshot in the wrong place".to_owned());
    }
    if is_snapshot { check_snapshot(node, message) } else { check_kind(node, message) }
}

fn check_snapshot<T: Storage>(node: &RawNode<T>, message: &Message) -> Result<(), String> {
    let snapshot = message.get_snapshot();
    let meta = snapshot.get_metadata();
    if !message.entries.is_empty() || snapshot.data.len() > DATA_BYTES_MAX {
        return Err("the snapshot carries too much".to_owned());
    }
    if meta.index == 0 || meta.index > NUMBER_MAX || !(1..=message.term).contains(&meta.term) {
        return Err("the snapshot's place is out of range".to_owned());
    }
    // raft-rs answers one that is older with what is committed here, and its leader may have no
    // other way to learn that. One that contradicts what is committed, it would take.
    let log = &node.raft.raft_log;
    if meta.index == log.committed && !log.match_term(meta.index, meta.term) {
        return Err("the snapshot contradicts what is committed here".to_owned());
    }
    members::check_state(meta.get_conf_state())?;
    if members::has(meta.get_conf_state(), node.raft.id) {
        return Ok(());
    }
    Err("this node is not a member in the snapshot".to_owned())
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
        if record::is_change(entry) {
            members::read(entry)?;
        }
        term = entry.term;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: MessageType, sizes: &[usize]) -> Message {
        let mut message = Message { from: 1, to: 2, term: 7, index: 4, ..Message::default() };
        (message.log_term, message.commit) = (3, 4);
        message.set_msg_type(kind);
        for (index, size) in (5..).zip(sizes) {
            let data = vec![0; *size].into();
            message.mut_entries().push(Entry {
                index,
                term: 3 + index / 20,
                data,
                ..Entry::default()
            });
        }
        message
    }

    fn packets(messages: &[Message]) -> Vec<Vec<(u32, Message)>> {
        let mut outbox = Outbox::new(1);
        for message in messages {
            outbox.put(9, message);
        }
        let sends = outbox.take();
        assert!(sends.iter().all(|(_, packet)| packet.len() <= PACKET_BYTES_MAX));
        sends.iter().map(|(_, it)| open(it, 2).into_iter().map(Result::unwrap).collect()).collect()
    }

    #[test]
    fn packets_with_entries_say_so() {
        let mut outbox = Outbox::new(1);
        outbox.put(9, &message(MessageType::MsgAppend, &[10]));
        outbox.put(9, &message(MessageType::MsgHeartbeat, &[]));
        let marks: Vec<u8> = outbox.take().iter().map(|(_, packet)| packet[0] & BULK).collect();
        assert_eq!(marks, [0, BULK]);
    }

    #[test]
    fn heartbeats_do_not_stand_behind_entries() {
        let append = message(MessageType::MsgAppend, &[10]);
        let beat = message(MessageType::MsgHeartbeat, &[]);
        let sent = packets(&[append.clone(), beat.clone()]);
        assert_eq!(sent, [vec![(9, beat)], vec![(9, append)]]);
    }

    #[test]
    fn what_carries_no_entries_is_one_packet() {
        let notice = message(MessageType::MsgAppend, &[]);
        let beat = message(MessageType::MsgHeartbeat, &[]);
        let sent = packets(&[notice.clone(), beat.clone()]);
        assert_eq!(sent, [vec![(9, beat), (9, notice)]]);
    }

    #[test]
    fn a_long_append_is_cut_into_appends_that_follow_each_other() {
        let whole = message(MessageType::MsgAppend, &[300_000; 40]);
        let sent = packets(std::slice::from_ref(&whole));
        assert!(sent.len() > 2);
        let parts: Vec<Message> = sent.into_iter().flatten().map(|(_, part)| part).collect();
        let (mut index, mut log_term, mut entries) = (whole.index, whole.log_term, Vec::new());
        for part in &parts {
            assert_eq!((part.index, part.log_term), (index, log_term));
            assert_eq!((part.term, part.commit, part.from, part.to), (7, 4, 1, 2));
            assert_eq!(check_entries(part), Ok(()));
            (index, log_term) = place(part.entries.last().unwrap());
            entries.extend(part.entries.iter().cloned());
        }
        assert_eq!(entries, whole.entries.to_vec());
    }

    #[test]
    fn a_snapshot_is_offered_and_not_sent() {
        let mut outbox = Outbox::new(1);
        outbox.put(9, &message(MessageType::MsgSnapshot, &[]));
        let offers = outbox.take_offers();
        assert_eq!((offers.len(), offers[0].0, offers[0].1), (1, 9, 2));
        assert!(open(&offers[0].2, 2).remove(0).is_ok());
        assert!(outbox.take().is_empty());
    }
}
