//! The system calls that the standard library does not have; the only unsafe code.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const EVENTS_MAX: usize = 512;

/// Edge-triggered readiness of sockets, each known by a number.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointer, and a descriptor it returns is ours alone.
        let epoll = unsafe {
            let descriptor = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            check(descriptor)?;
            OwnedFd::from_raw_fd(descriptor)
        };
        Ok(Self {
            epoll,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX],
        })
    }

    pub fn add(&self, descriptor: RawFd, number: usize) -> io::Result<()> {
        let flags = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event {
            events: flags as u32,
            u64: number as u64,
        };
        // SAFETY: `event` lives through the call, which copies it.
        check(unsafe {
            libc::epoll_ctl(
                self.epoll.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                descriptor,
                &raw mut event,
            )
        })
    }

    /// Fills `ready` with the numbers of sockets on which something changed.
    pub fn wait(&mut self, timeout_ms: i32, ready: &mut Vec<usize>) -> io::Result<()> {
        let capacity = i32::try_from(self.events.len()).expect("the array is short");
        // SAFETY: the kernel writes at most `capacity` events into an array of that many.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                capacity,
                timeout_ms,
            )
        };
        check(count)?;
        ready.clear();
        let count = usize::try_from(count).unwrap_or(0);
        ready.extend(
            self.events[..count].iter().map(|event| {
                usize::try_from(event.u64).expect("only numbers given to add come back")
            }),
        );
        Ok(())
    }
}

pub fn pin_to_core(core: usize) -> io::Result<()> {
    // SAFETY: an all-zero set is a valid empty set; `core` is below the 1024 bits of the set.
    check(unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    })
}

/// Lets this process open as many sockets as its hard limit allows.
pub fn raise_file_limit() -> io::Result<()> {
    // SAFETY: both calls only touch `limit`, which lives through them.
    unsafe {
        let mut limit: libc::rlimit = zeroed();
        check(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit))?;
        limit.rlim_cur = limit.rlim_max;
        check(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit))
    }
}

pub fn own_cpu_ns() -> io::Result<u64> {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of all threads of another process, those that ended included.
pub fn process_cpu_ns(pid: i32) -> io::Result<u64> {
    // The kernel's encoding of a process clock: the complement of the pid, then "scheduler time".
    clock_ns((!pid << 3) | 2)
}

fn clock_ns(clock: libc::clockid_t) -> io::Result<u64> {
    // SAFETY: an all-zero timespec is valid, and the call only writes it.
    let time = unsafe {
        let mut time: libc::timespec = zeroed();
        check(libc::clock_gettime(clock, &raw mut time))?;
        time
    };
    let (seconds, rest) = (time.tv_sec as u64, time.tv_nsec as u64);
    Ok(seconds * 1_000_000_000 + rest)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
