//! The one error type of the crate. How an error becomes a Python exception is in `python.rs`.

use std::fmt;
use std::io;

/// What can go wrong; a bug is an assertion and is not listed here.
#[derive(Debug)]
pub enum Error {
    /// The operating system refused a file operation.
    Io {
        /// What was being done, with the file name.
        doing: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Stored bytes are not what was written, or are missing.
    Corrupt(String),
    /// The directory belongs to another format version, node or number of groups.
    Format(String),
    /// There is no room for another block and none can be allocated.
    Full,
    /// The group is led by somebody else, by nobody, or is handing its leadership over.
    NotLeader,
    /// Members cannot change now; it may be tried again.
    MembersBusy(String),
    /// More bytes wait to be committed than may.
    TooMuchPending,
    /// The caller broke a rule of the interface.
    Misuse(String),
}

/// Short form for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wraps a system error with what was being done.
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), source }
    }

    /// A broken rule of the interface.
    pub fn misuse(text: impl Into<String>) -> Self {
        Self::Misuse(text.into())
    }

    /// True when the disk has no free space.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Full => true,
            Self::Io { source, .. } => {
                matches!(source.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
            }
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::Corrupt(text)
            | Self::Format(text)
            | Self::Misuse(text)
            | Self::MembersBusy(text) => f.write_str(text),
            Self::Full => f.write_str("the log has no room for another block: the disk is full"),
            Self::TooMuchPending => f.write_str("too many bytes wait to be committed"),
            Self::NotLeader => f.write_str("this node does not lead the group"),
        }
    }
}

impl std::error::Error for Error {}
