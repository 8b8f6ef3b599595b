//! What a leader knows of its peers, for status.

use raft::ProgressState;

use crate::group::Group;

/// A peer as its leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub node: u64,
    /// The last entry that it is known to hold.
    pub matched: u64,
    /// The next entry to send.
    pub next: u64,
    /// `probe`, `replicate` or `snapshot`.
    pub state: &'static str,
    /// It answered within the last election timeout.
    pub is_active: bool,
    /// Index of the snapshot that it is getting, 0 for none.
    pub snapshot: u64,
}

impl Group {
    /// The peers; none on a node that does not lead.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        let raft = &self.raft.raft;
        let known = raft.prs().iter().filter(|(node, _)| self.is_leader() && **node != raft.id);
        let mut peers: Vec<_> = known
            .map(|(node, progress)| Peer {
                node: *node,
                matched: progress.matched,
                next: progress.next_idx,
                state: match progress.state {
                    ProgressState::Probe => "probe",
                    ProgressState::Replicate => "replicate",
                    ProgressState::Snapshot => "snapshot",
                },
                is_active: progress.recent_active,
                snapshot: progress.pending_snapshot,
            })
            .collect();
        peers.sort_unstable_by_key(|peer| peer.node);
        peers
    }

    /// Index of the snapshot that this node offers, 0 for none.
    #[must_use]
    pub fn offered_index(&self) -> u64 {
        self.store().offered().map_or(0, |snapshot| snapshot.get_metadata().index)
    }

    /// Whom leadership is being handed to, 0 for nobody.
    #[must_use]
    pub fn transferee(&self) -> u64 {
        self.raft.raft.lead_transferee.unwrap_or(0)
    }
}
