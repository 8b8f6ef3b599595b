//! Raft groups over one durable segment log. Everything but `python.rs` is plain Rust.

pub mod bell;
pub mod block;
pub mod disk;
pub mod errors;
pub mod group;
pub mod log;
pub mod members;
pub mod membership;
pub mod node;
pub mod packet;
mod python;
pub mod record;
pub mod recovery;
pub mod requests;
pub mod segment;
pub mod simdisk;
pub mod snapshots;
pub mod space;
pub mod status;
pub mod store;
pub mod times;
pub mod turn;
pub mod writer;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _raftlog(module: &Bound<'_, PyModule>) -> PyResult<()> {
    python::register(module)
}
