//! What a run counts; `load` fills it, `report` prints it.

use std::collections::BTreeMap;

use crate::flow::{step_names, Counts};
use crate::histogram::Histogram;
use crate::options::{Group, Kind};

pub struct StepTally {
    pub name: &'static str,
    pub latencies: Histogram,
    pub refused: u64,
    pub statuses: BTreeMap<u16, u64>,
}

pub struct GroupTally {
    pub kind: Kind,
    pub connections: usize,
    pub counts: Counts,
    pub steps: Vec<StepTally>,
}

/// Statuses, message counts and what was not sent are of the whole run, the rest of the window only.
/// Latencies are of answers of 200; how many others came in the window is `refused`.
pub struct Outcome {
    pub elapsed_ns: u64,
    pub client_cpu_ns: u64,
    pub watched_cpu_ns: u64,
    pub sent: u64,
    pub unsent: u64,
    pub answered: u64,
    pub connections_lost: u64,
    pub first_failure: Option<String>,
    pub groups: Vec<GroupTally>,
}

impl Outcome {
    pub fn empty(groups: &[Group]) -> Self {
        let step = |name: &&'static str| StepTally {
            name,
            latencies: Histogram::new(),
            refused: 0,
            statuses: BTreeMap::new(),
        };
        let group = |group: &Group| GroupTally {
            kind: group.kind,
            connections: group.connections,
            counts: Counts::default(),
            steps: step_names(group.kind).iter().map(step).collect(),
        };
        Self {
            elapsed_ns: 0,
            client_cpu_ns: 0,
            watched_cpu_ns: 0,
            sent: 0,
            unsent: 0,
            answered: 0,
            connections_lost: 0,
            first_failure: None,
            groups: groups.iter().map(group).collect(),
        }
    }
}
