//! All groups of a worker over one log: what must be durable before what may be sent.

use std::sync::Arc;

use bytes::Bytes;
use raft::Ready;
use raft::eraftpb::{Entry, HardState, Message, MessageType};

use crate::disk::Disk;
use crate::errors::{Error, Result};
use crate::group::{Group, Settings, Standing};
use crate::log::{Log, Stores};
use crate::packet::{self, Outbox};
use crate::record::{self, Hard, Placed};
use crate::store::Place;

/// Committed entries of one group.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed {
    /// The group.
    pub group: u32,
    /// Index of the last one.
    pub last_index: u64,
    /// Its term.
    pub last_term: u64,
    /// Their content; the empty one that begins a term is left out.
    pub entries: Vec<Bytes>,
}

/// What a turn asks of its caller.
#[derive(Default)]
pub struct Turn {
    /// Packets by peer.
    pub sends: Vec<(u64, Vec<u8>)>,
    /// What to apply.
    pub committed: Vec<Committed>,
    /// Group, context and index of reads that may now be answered.
    pub reads: Vec<(u32, Vec<u8>, u64)>,
    /// Roles that changed.
    pub roles: Vec<(u32, Standing)>,
    /// True while a block is queued or being written, or committed entries are left for the next
    /// turn; the descriptor becomes readable in either case.
    pub persisting: bool,
}

/// A `Ready` that counts once its block is durable.
struct Ticket {
    group: u32,
    number: u64,
    messages: Vec<Message>,
}

struct Groups(Vec<Group>);

/// See the top of the file.
pub struct Node {
    id: u64,
    log: Log,
    groups: Groups,
    open_tickets: Vec<Ticket>,
    flying_tickets: Vec<Ticket>,
    is_closed: bool,
}

impl Node {
    /// Recovers all groups, or begins them; `applied` has one index per group.
    ///
    /// # Errors
    /// `Corrupt`, `Format`, `Misuse`, or the disk's.
    pub fn new(
        disk: Arc<dyn Disk>,
        settings: &Settings,
        applied: &[u64],
        segment_bytes: u64,
        is_manual: bool,
    ) -> Result<Self> {
        let count = u32::try_from(applied.len()).map_err(|_| misuse("too many groups"))?;
        let is_valid = settings.node != 0 && settings.voters.contains(&settings.node);
        if count == 0 || !is_valid || settings.voters.contains(&0) || segment_bytes < 1024 {
            return Err(misuse("a node needs groups, voters that include it, and 1 KiB segments"));
        }
        let (mut log, found) = Log::new(disk, settings.node, count, segment_bytes, is_manual)?;
        let mut found = found.into_iter();
        let mut groups = Vec::with_capacity(applied.len());
        for (id, applied) in (0..).zip(applied) {
            groups.push(Group::new(id, settings, log.segments(), found.next(), *applied)?);
        }
        let groups = Groups(groups);
        let mut checkpoint = Vec::new();
        groups.put_checkpoints(&mut checkpoint);
        log.set_checkpoint_bytes(checkpoint.len());
        let (open_tickets, flying_tickets) = (Vec::new(), Vec::new());
        let id = settings.node;
        Ok(Self { id, log, groups, open_tickets, flying_tickets, is_closed: false })
    }

    /// The log, for its descriptor and its figures.
    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    /// The groups, in order.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups.0
    }

    /// Time passes.
    pub fn tick(&mut self) {
        for group in &mut self.groups.0 {
            group.tick();
        }
    }

    /// Takes a packet from a peer; answers why messages were refused.
    pub fn step(&mut self, packet: &[u8]) -> Vec<String> {
        let opened = packet::open(packet, self.id);
        let stepped = opened.into_iter().map(|item| {
            let (group, message) = item?;
            self.step_message(group, message)
        });
        stepped.filter_map(std::result::Result::err).collect()
    }

    fn step_message(&mut self, id: u32, message: Message) -> std::result::Result<(), String> {
        let Some(group) = self.groups.0.get_mut(id as usize) else {
            return Err(format!("group {id} is unknown"));
        };
        packet::check(&group.raft, &message).map_err(|why| format!("group {id}: {why}"))?;
        if group.is_too_early(&message) {
            return Ok(());
        }
        if !message.entries.is_empty() {
            let bytes = message.entries.iter().map(record::entry_bytes).sum();
            self.log.promise(bytes).map_err(|error| format!("group {id}: {error}"))?;
        }
        let (kind, from) = (message.get_msg_type(), message.from);
        group.raft.step(message).map_err(|error| format!("group {id}: {error}"))?;
        group.heard(kind, from);
        Ok(())
    }

    /// Proposes an entry.
    ///
    /// # Errors
    /// `NotLeader`, `Full`, `Misuse`; in all cases nothing was appended.
    pub fn propose(&mut self, id: u32, entry: Bytes) -> Result<()> {
        self.leading(id)?;
        self.log.promise(record::ENTRY_HEADER_BYTES + entry.len())?;
        let mut message = Message { from: self.id, ..Message::default() };
        message.set_msg_type(MessageType::MsgPropose);
        message.set_entries(vec![Entry { data: entry, ..Entry::default() }].into());
        // The role was checked, so raft-rs refuses only while leadership is being handed over.
        self.group(id)?.raft.raft.step(message).map_err(|_| Error::NotLeader)
    }

    /// Asks for the index at which a read of now may be answered.
    ///
    /// # Errors
    /// `NotLeader`, `Misuse`.
    pub fn read_index(&mut self, id: u32, context: Vec<u8>) -> Result<()> {
        self.leading(id)?.raft.read_index(context);
        Ok(())
    }

    /// Hands leadership to another voter.
    ///
    /// # Errors
    /// `NotLeader`, `Misuse`.
    pub fn transfer_leader(&mut self, id: u32, to: u64) -> Result<()> {
        self.leading(id)?.raft.transfer_leader(to);
        Ok(())
    }

    /// A peer could not be reached.
    pub fn report_unreachable(&mut self, peer: u64) {
        for group in &mut self.groups.0 {
            group.raft.report_unreachable(peer);
        }
    }

    /// The state machine of a group is at this index.
    ///
    /// # Errors
    /// `Misuse`.
    pub fn applied(&mut self, id: u32, index: u64) -> Result<()> {
        self.group(id)?.set_applied(index)
    }

    /// Entries up to this index are not needed any more.
    ///
    /// # Errors
    /// `Misuse` for entries that were not applied.
    pub fn compact(&mut self, id: u32, index: u64) -> Result<()> {
        let group = self.group(id)?;
        if index > group.applied() {
            return Err(misuse("only applied entries can be compacted"));
        }
        if index > group.store().compacted().index {
            let upto = group.store_mut().compact(index);
            self.log.put_compacted(id, upto);
        }
        Ok(())
    }

    /// Works off what is durable, collects what the groups want, and hands one block over.
    ///
    /// # Errors
    /// The disk's.
    pub fn ready(&mut self) -> Result<Turn> {
        let mut turn = Turn::default();
        let mut outbox = Outbox::new(self.id);
        if self.is_closed {
            return Err(misuse("the log is closed"));
        }
        if self.log.poll()? {
            for ticket in std::mem::take(&mut self.flying_tickets) {
                self.redeem(&ticket, &mut outbox);
            }
        }
        for id in 0..self.groups.0.len() {
            if self.groups.0[id].raft.has_ready() {
                self.collect(u32::try_from(id).unwrap_or(u32::MAX), &mut turn, &mut outbox);
            }
        }
        self.log.settle();
        self.hand_over()?;
        for (id, group) in (0..).zip(&mut self.groups.0) {
            turn.roles.extend(group.news().map(|standing| (id, standing)));
        }
        turn.sends = outbox.take();
        let has_more = self.groups.0.iter().any(|group| group.raft.has_ready());
        if has_more {
            self.log.writer().ring();
        }
        turn.persisting = has_more || self.log.is_persisting();
        Ok(turn)
    }

    /// Manual mode: writes and syncs the block on its way; false when there is none.
    ///
    /// # Errors
    /// The disk's.
    pub fn persist_step(&mut self) -> Result<bool> {
        if !self.log.writer().is_manual() {
            return Err(misuse("the log has a thread of its own"));
        }
        self.log.writer().run_write()
    }

    /// Makes everything durable and stops; a second call does nothing.
    ///
    /// # Errors
    /// The disk's.
    pub fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        self.log.close(&mut self.groups)
    }

    fn collect(&mut self, id: u32, turn: &mut Turn, outbox: &mut Outbox) {
        let group = &mut self.groups.0[id as usize];
        let mut wish = group.raft.ready();
        assert!(wish.snapshot().is_empty(), "snapshots are refused before they reach raft");
        turn.committed.extend(committed(id, group, &mut wish));
        let reads = wish.take_read_states().into_iter();
        turn.reads.extend(reads.map(|read| (id, read.request_ctx, read.index)));
        wish.take_messages().iter().for_each(|message| outbox.put(id, message));
        if let Some(state) = wish.hs() {
            group.store_mut().set_hard(hard(state));
            group.is_hard_changed = true;
        }
        let entries = wish.take_entries();
        if !entries.is_empty() {
            group.store_mut().append(&entries);
            self.log.append(id, &entries);
        }
        let (number, must_sync) = (wish.number(), wish.must_sync());
        let ticket = Ticket { group: id, number, messages: wish.take_persisted_messages() };
        group.raft.advance_append_async(wish);
        self.file(ticket, must_sync, outbox);
    }

    /// A change of the commit index alone need not be durable, but its messages keep their order.
    fn file(&mut self, ticket: Ticket, must_sync: bool, outbox: &mut Outbox) {
        let group = &mut self.groups.0[ticket.group as usize];
        let is_before = self.open_tickets.iter().any(|other| other.group == ticket.group);
        if must_sync {
            self.log.set_due();
        } else if group.waiting == 0 {
            group.waiting += 1;
            return self.redeem(&ticket, outbox);
        }
        group.waiting += 1;
        let tickets =
            if must_sync || is_before { &mut self.open_tickets } else { &mut self.flying_tickets };
        tickets.push(ticket);
    }

    fn redeem(&mut self, ticket: &Ticket, outbox: &mut Outbox) {
        let group = &mut self.groups.0[ticket.group as usize];
        group.waiting -= 1;
        group.raft.on_persist_ready(ticket.number);
        ticket.messages.iter().for_each(|message| outbox.put(ticket.group, message));
    }

    fn hand_over(&mut self) -> Result<()> {
        if let Some(segment) = self.log.worth_moving() {
            for (id, group) in (0..).zip(&self.groups.0) {
                for run in group.store().entries_in(segment)? {
                    self.log.move_entries(id, &run);
                }
            }
        }
        if self.log.hand_over(&mut self.groups)? {
            self.flying_tickets = std::mem::take(&mut self.open_tickets);
        }
        Ok(())
    }

    fn group(&mut self, id: u32) -> Result<&mut Group> {
        self.groups.0.get_mut(id as usize).ok_or_else(|| misuse("there is no such group"))
    }

    fn leading(&mut self, id: u32) -> Result<&mut Group> {
        let is_closed = self.is_closed;
        let group = self.group(id)?;
        if group.is_leader() && !is_closed { Ok(group) } else { Err(Error::NotLeader) }
    }
}

fn committed(id: u32, group: &mut Group, ready: &mut Ready) -> Option<Committed> {
    let entries = ready.take_committed_entries();
    let last = entries.last()?;
    let (last_index, last_term) = (last.index, last.term);
    group.delivered = last_index;
    let entries = entries.into_iter().map(|entry| entry.data).filter(|it| !it.is_empty());
    Some(Committed { group: id, last_index, last_term, entries: entries.collect() })
}

fn hard(state: &HardState) -> Hard {
    Hard { term: state.term, vote: state.vote, commit: state.commit }
}

fn misuse(text: &str) -> Error {
    Error::Misuse(text.to_owned())
}

impl Stores for Groups {
    fn put_hards(&mut self, block: &mut Vec<u8>) {
        for (id, group) in (0..).zip(&mut self.0) {
            if std::mem::replace(&mut group.is_hard_changed, false) {
                record::put_hard(block, id, group.store().hard());
            }
        }
    }

    fn put_checkpoints(&self, block: &mut Vec<u8>) {
        for (id, group) in (0..).zip(&self.0) {
            record::put_checkpoint(block, id, &group.store().checkpoint());
        }
    }

    fn set_place(&mut self, group: u32, placed: &Placed, place: Place) {
        self.0[group as usize].store_mut().set_place(placed, place);
    }
}
