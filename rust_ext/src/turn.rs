//! What a turn asks of its caller, and what waits for a block to become durable.

use bytes::Bytes;
use raft::eraftpb::{Entry, Message};

use crate::group::Standing;
use crate::record::{Members, Position, is_change};

/// Committed entries of one group.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed {
    /// The group.
    pub group: u32,
    /// Index of the last one.
    pub last_index: u64,
    /// Its term.
    pub last_term: u64,
    /// Their content; empty ones that begin a term and changes of members are left out.
    pub entries: Vec<Bytes>,
}

/// A snapshot that this node accepted: the state machine is to be replaced.
#[derive(Debug, PartialEq)]
pub struct Installation {
    /// The group.
    pub group: u32,
    /// The entry up to which the snapshot reaches.
    pub position: Position,
    /// The members at that entry.
    pub members: Members,
    /// By what name the leader knows the state.
    pub data: Bytes,
}

/// See the top of the file.
#[derive(Default)]
pub struct Turn {
    /// Packets by peer, what must not wait first.
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
    /// Configurations that are new.
    pub members: Vec<(u32, Members)>,
    /// Group and peer that entries cannot help any more.
    pub wanted: Vec<(u32, u64)>,
    /// Group, peer and the packet that the peer takes once it has fetched the snapshot.
    pub offers: Vec<(u32, u64, Vec<u8>)>,
    /// Snapshots to install.
    pub installs: Vec<Installation>,
}

/// A `Ready` that counts once its block is durable.
pub struct Ticket {
    /// The group.
    pub group: u32,
    /// The number of the `Ready`; 0 for what a start had to write.
    pub number: u64,
    /// The group's term by then.
    pub term: u64,
    /// Index of the group's configuration by then.
    pub members: u64,
    /// What may be sent then.
    pub messages: Vec<Message>,
}

impl Committed {
    /// What there is to apply.
    #[must_use]
    pub fn of(group: u32, entries: Vec<Entry>) -> Option<Self> {
        let last = entries.last()?;
        let (last_index, last_term) = (last.index, last.term);
        let entries =
            entries.into_iter().filter(|entry| !is_change(entry) && !entry.data.is_empty());
        let entries = entries.map(|entry| entry.data).collect();
        Some(Self { group, last_index, last_term, entries })
    }
}
