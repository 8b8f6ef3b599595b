//! What the caller asks of one group. What a turn does with it is in `node.rs`, snapshots have
//! their own file.

use bytes::Bytes;
use raft::eraftpb::{Entry, Message, MessageType};

use crate::errors::{Error, Result};
use crate::members::{self, Kind, NODE_LIMIT};
use crate::node::Node;
use crate::record;

/// Larger entries would hold up everything behind them.
const ENTRY_BYTES_MAX: usize = 32 << 20;

impl Node {
    /// Proposes an entry.
    ///
    /// # Errors
    /// `NotLeader`, `Full`, `TooMuchPending`, `Misuse`; in all cases nothing was appended.
    pub fn propose(&mut self, id: u32, entry: Bytes) -> Result<()> {
        let bytes_max = self.uncommitted_bytes_max;
        let pending = self.leading(id)?.raft.raft.uncommitted_size();
        if entry.len() > ENTRY_BYTES_MAX {
            return Err(Error::misuse("the entry is too large"));
        }
        if pending > 0 && (pending + entry.len()) as u64 > bytes_max {
            return Err(Error::TooMuchPending);
        }
        self.append(id, Entry { data: entry, ..Entry::default() })
    }

    /// Proposes to change the members by one node.
    ///
    /// # Errors
    /// `NotLeader`, `MembersBusy`, `Full`, `Misuse`; in all cases nothing was appended.
    pub fn propose_members(&mut self, id: u32, kind: Kind, node: u64) -> Result<()> {
        if !(1..NODE_LIMIT).contains(&node) {
            return Err(Error::misuse("a node id is out of range"));
        }
        let group = self.leading(id)?;
        group.check_change(kind, node)?;
        let Some(entry) = members::propose(&group.store().members().state, kind, node) else {
            return Err(Error::misuse("the last voter stays"));
        };
        self.append(id, entry)
    }

    fn append(&mut self, id: u32, entry: Entry) -> Result<()> {
        self.log().promise(record::entry_bytes(&entry))?;
        let group = self.leading(id)?;
        let mut message = Message { from: group.raft.raft.id, ..Message::default() };
        message.set_msg_type(MessageType::MsgPropose);
        message.set_entries(vec![entry].into());
        // The role was checked, so raft-rs refuses only while leadership is being handed over.
        group.raft.raft.step(message).map_err(|_| Error::NotLeader)
    }

    /// Asks to be elected; without effect on a node that cannot be.
    ///
    /// # Errors
    /// `Misuse`.
    pub fn campaign(&mut self, id: u32) -> Result<()> {
        self.group(id)?.campaign();
        Ok(())
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

    /// The state machine of a group is at this index.
    ///
    /// # Errors
    /// `Misuse`.
    pub fn applied(&mut self, id: u32, index: u64) -> Result<()> {
        self.group(id)?.set_applied(index)
    }

    /// Entries up to this index are not needed any more. Those behind a snapshot that is offered
    /// stay, since whoever takes it goes on with them.
    ///
    /// # Errors
    /// `Misuse` for entries that were not applied.
    pub fn compact(&mut self, id: u32, index: u64) -> Result<()> {
        let group = self.group(id)?;
        // A snapshot leaves nothing to compact.
        if group.install.is_some() {
            return Ok(());
        }
        if index > group.applied() {
            return Err(Error::misuse("only applied entries can be compacted"));
        }
        let offered = group.offered_index();
        let index = if offered > 0 { index.min(offered) } else { index };
        if index > group.store().compacted().index {
            let upto = group.store_mut().compact(index);
            self.log().put_compacted(id, upto);
        }
        Ok(())
    }
}
