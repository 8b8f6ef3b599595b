//! All groups of a worker over one log: what must be durable before what may be sent.

use std::sync::Arc;

use raft::eraftpb::Message;

use crate::disk::Disk;
use crate::errors::{Error, Result};
use crate::group::{Group, Settings};
use crate::log::{Log, Stores};
use crate::packet::{self, Outbox};
use crate::record::{self, Placed};
use crate::snapshots::Restored;
use crate::store::Place;
use crate::turn::{Committed, Ticket, Turn};

struct Groups(Vec<Group>);

/// See the top of the file.
pub struct Node {
    id: u64,
    log: Log,
    groups: Groups,
    open_tickets: Vec<Ticket>,
    flying_tickets: Vec<Ticket>,
    is_closed: bool,
    heartbeat_ticks: usize,
    ticks: usize,
    pub(crate) uncommitted_bytes_max: u64,
}

/// How far a group's state machine is when a node starts.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// What was applied.
    pub applied: u64,
    /// The snapshot that replaced the state machine last, if any.
    pub restored: Option<Restored>,
}

impl Node {
    /// Recovers all groups, or begins them; `machines` has one for each.
    ///
    /// # Errors
    /// `Corrupt`, `Format`, `Misuse`, or the disk's.
    pub fn new(
        disk: Arc<dyn Disk>,
        settings: &Settings,
        machines: &[Machine],
        segment_bytes: u64,
        is_manual: bool,
    ) -> Result<Self> {
        let count = u32::try_from(machines.len()).map_err(|_| misuse("too many groups"))?;
        let Settings { node, ref voters, uncommitted_bytes_max, .. } = *settings;
        let is_valid = node != 0 && (voters.is_empty() || voters.contains(&node));
        if count == 0 || !is_valid || voters.contains(&0) || segment_bytes < 1024 {
            let text = "a node needs groups, voters that include it or none, and 1 KiB segments";
            return Err(misuse(text));
        }
        let (log, found) = Log::new(disk, node, count, segment_bytes, is_manual)?;
        let mut found = found.into_iter();
        let mut groups = Vec::with_capacity(machines.len());
        for (id, Machine { applied, restored }) in (0..).zip(machines) {
            let (segments, restored) = (log.segments(), restored.as_ref());
            groups.push(Group::new(id, settings, segments, found.next(), *applied, restored)?);
        }
        let (open_tickets, flying_tickets) = (Vec::new(), Vec::new());
        let (id, groups, is_closed) = (node, Groups(groups), false);
        let mut node = Self {
            id,
            log,
            groups,
            open_tickets,
            flying_tickets,
            is_closed,
            heartbeat_ticks: settings.heartbeat_ticks.max(1),
            ticks: 0,
            uncommitted_bytes_max,
        };
        node.measure_checkpoint();
        node.write_start();
        Ok(node)
    }

    /// What the state machines knew and the log did not.
    fn write_start(&mut self) {
        for (id, at) in (0..).zip(0..self.groups.0.len()) {
            let group = &mut self.groups.0[at];
            let (position, members) = (group.store().compacted(), group.store().members().clone());
            let ticket = group.ticket(id, 0, Vec::new());
            if group.install.is_some() {
                group.is_hard_changed = true;
                self.write_reset(id, position, &members);
                self.wait_for(ticket);
            } else if group.durable_members < members.index {
                self.log.put_members(id, &members);
                self.wait_for(ticket);
            }
        }
    }

    /// A segment begins with a checkpoint, which grows with the members.
    pub(crate) fn measure_checkpoint(&mut self) {
        let mut checkpoint = Vec::new();
        self.groups.put_checkpoints(&mut checkpoint);
        self.log.set_checkpoint_bytes(checkpoint.len());
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

    /// Time passes. Groups that are led here learn of it in steps as long as a heartbeat, all in the
    /// same tick: so that their heartbeats travel in one packet to each peer, however many they are.
    pub fn tick(&mut self) {
        self.ticks += 1;
        let is_beat = self.ticks % self.heartbeat_ticks == 0;
        for group in &mut self.groups.0 {
            let count = match (group.is_leader(), is_beat) {
                (false, _) => 1,
                (true, false) => 0,
                (true, true) => self.heartbeat_ticks,
            };
            (0..count).for_each(|_| group.tick());
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
        if group.install.is_some() {
            return Err(format!("group {id}: a snapshot is being installed"));
        }
        let checked =
            group.check_sender(&message).and_then(|()| packet::check(&group.raft, &message));
        checked.map_err(|why| format!("group {id}: {why}"))?;
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
        group.note_snapshot();
        Ok(())
    }

    /// A peer could not be reached.
    pub fn report_unreachable(&mut self, peer: u64) {
        for group in &mut self.groups.0 {
            group.raft.report_unreachable(peer);
        }
    }

    /// Works off what is durable, collects what the groups want, and hands one block over.
    ///
    /// # Errors
    /// The disk's.
    pub fn ready(&mut self) -> Result<Turn> {
        self.turn(false)
    }

    /// As [`Self::ready`], for a caller that has little else to do: it may begin to write the block
    /// itself, and then waits for it in the next turn, whatever kind of turn that is.
    ///
    /// # Errors
    /// The disk's.
    pub fn ready_here(&mut self) -> Result<Turn> {
        self.turn(true)
    }

    fn turn(&mut self, here: bool) -> Result<Turn> {
        let mut turn = Turn::default();
        let mut outbox = Outbox::new(self.id);
        if self.is_closed {
            return Err(misuse("the log is closed"));
        }
        self.work_off(&mut turn, &mut outbox)?;
        // Peers get their packets, and clients their answers, before anybody waits for a disk.
        let here = here && turn.committed.is_empty() && outbox.is_empty();
        self.hand_over(here)?;
        for (id, group) in (0..).zip(&mut self.groups.0) {
            turn.roles.extend(group.news().map(|standing| (id, standing)));
            turn.members.extend(group.members_news().map(|members| (id, members)));
            turn.wanted.extend(group.wants.take().into_iter().map(|peer| (id, peer)));
            turn.installs.extend(group.installation(id));
        }
        turn.offers = outbox.take_offers();
        turn.sends = outbox.take();
        let has_more = self.groups.0.iter().any(Group::is_ready);
        if has_more {
            self.log.writer().ring();
        }
        turn.persisting = has_more || self.log.is_persisting();
        Ok(turn)
    }

    fn work_off(&mut self, turn: &mut Turn, outbox: &mut Outbox) -> Result<()> {
        if self.log.poll()? {
            for ticket in std::mem::take(&mut self.flying_tickets) {
                self.redeem(&ticket, outbox);
            }
        }
        for id in 0..self.groups.0.len() {
            if self.groups.0[id].is_ready() {
                self.collect(u32::try_from(id).unwrap_or(u32::MAX), turn, outbox);
            }
        }
        self.log.settle();
        Ok(())
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
        assert!(wish.snapshot().is_empty(), "a group that installs a snapshot is not asked");
        let reads = wish.take_read_states().into_iter();
        turn.reads.extend(reads.map(|read| (id, read.request_ctx, read.index)));
        let at_once = wish.take_messages();
        if let Some(state) = wish.hs() {
            group.set_hard(state);
        }
        let entries = wish.take_entries();
        if !entries.is_empty() {
            group.store_mut().append(&entries);
            self.log.append(id, &entries);
        }
        // A leader that hears from a node which joins how much it knows to be committed counts on
        // it that the node still knows after a crash: only then can it vote.
        let mut must_sync = wish.must_sync() || (wish.hs().is_some() && group.is_joining());
        let (number, mut messages) = (wish.number(), wish.take_persisted_messages());
        if group.is_term_durable() {
            for message in &at_once {
                outbox.put(id, message);
            }
        } else {
            messages.splice(0..0, at_once);
        }
        let committed = wish.take_committed_entries();
        group.raft.advance_append_async(wish);
        if group.apply_changes(&committed) {
            self.log.put_members(id, group.store().members());
            self.measure_checkpoint();
            must_sync = true;
        }
        let ticket = self.groups.0[id as usize].ticket(id, number, messages);
        self.file(ticket, must_sync, outbox);
        if let Some(batch) = Committed::of(id, committed) {
            self.groups.0[id as usize].delivered = batch.last_index;
            turn.committed.push(batch);
        }
    }

    /// A change of the commit index alone need not be durable, but its messages keep their order.
    fn file(&mut self, ticket: Ticket, must_sync: bool, outbox: &mut Outbox) {
        let group = &mut self.groups.0[ticket.group as usize];
        let is_before = self.open_tickets.iter().any(|other| other.group == ticket.group);
        if must_sync {
            return self.wait_for(ticket);
        }
        group.waiting += 1;
        if group.waiting == 1 {
            return self.redeem(&ticket, outbox);
        }
        let tickets = if is_before { &mut self.open_tickets } else { &mut self.flying_tickets };
        tickets.push(ticket);
    }

    /// The ticket counts once the open block is durable.
    pub(crate) fn wait_for(&mut self, ticket: Ticket) {
        self.log.set_due();
        self.groups.0[ticket.group as usize].waiting += 1;
        self.open_tickets.push(ticket);
    }

    fn redeem(&mut self, ticket: &Ticket, outbox: &mut Outbox) {
        self.groups.0[ticket.group as usize].redeem(ticket);
        ticket.messages.iter().for_each(|message| outbox.put(ticket.group, message));
    }

    fn hand_over(&mut self, here: bool) -> Result<bool> {
        if let Some(segment) = self.log.worth_moving() {
            for (id, group) in (0..).zip(&self.groups.0) {
                for run in group.store().entries_in(segment)? {
                    self.log.move_entries(id, &run);
                }
            }
        }
        let is_given = self.log.hand_over(&mut self.groups, here)?;
        if is_given {
            self.flying_tickets = std::mem::take(&mut self.open_tickets);
        }
        Ok(is_given)
    }

    /// The group of this number.
    pub(crate) fn group(&mut self, id: u32) -> Result<&mut Group> {
        self.groups.0.get_mut(id as usize).ok_or_else(|| misuse("there is no such group"))
    }

    /// The group, if this node leads it.
    pub(crate) fn leading(&mut self, id: u32) -> Result<&mut Group> {
        let is_closed = self.is_closed;
        let group = self.group(id)?;
        if group.is_leader() && !is_closed { Ok(group) } else { Err(Error::NotLeader) }
    }
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
