//! How the log's thread wakes an event loop.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// An event counter that an event loop can watch.
pub struct Bell {
    descriptor: OwnedFd,
}

impl Bell {
    /// One that is silent.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointers.
        let raw = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(Self { descriptor: unsafe { OwnedFd::from_raw_fd(raw) } })
    }

    /// Where to watch it: readable from a ring until it is hushed.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Makes it readable.
    pub fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the buffer is valid for eight bytes. A full counter is readable already.
        unsafe { libc::write(self.descriptor.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it silent.
    pub fn hush(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: the buffer is valid for eight bytes. An empty counter answers at once.
        unsafe { libc::read(self.descriptor.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}
