//! Who touches the disk while the node works: a thread, or in manual mode the caller itself.
//! Jobs run in the order in which they were given. The thread knows nothing of Python.
//!
//! A small block that nothing else goes on beside is better written by the caller: two changes of
//! threads cost about a quarter of what a good disk needs for it. The caller begins it, does what it
//! can do meanwhile, and finishes it with its next look at what is done.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::bell::Bell;
use crate::block;
use crate::disk::{Disk, File};
use crate::errors::{Error, Result};
use crate::segment::{self, Header};
use crate::times::Times;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
/// A caller that a block has held up for longer leaves the next ones to the thread: a few of them at
/// first, twice as many each time it happens again.
const PATIENCE: Duration = Duration::from_millis(2);
/// A larger one is better copied beside the caller's other work.
const HERE_BYTES_MAX: usize = 256 * 1024;
const PAUSE_BLOCKS: u32 = 8;
const PAUSE_BLOCKS_MAX: u32 = 4096;

/// Something to do.
pub enum Job {
    /// Seal a block, write it and make it durable.
    Write {
        /// Where to.
        file: Arc<dyn File>,
        /// Where in the file.
        offset: u64,
        /// An open block.
        block: Vec<u8>,
        /// The directory's number for checksums.
        secret: u64,
        /// The block's position in the log.
        sequence: u64,
    },
    /// Overwrite allocated space: a sync of bytes that were written once already is faster.
    Zero {
        /// Where to.
        file: Arc<dyn File>,
        /// First byte.
        from: u64,
        /// First byte behind.
        to: u64,
    },
    /// Make the next segment ready before it is needed.
    Prepare {
        /// Its header.
        header: Header,
        /// The file to reuse.
        spare: Option<String>,
        /// Space to allocate.
        length: u64,
    },
}

/// What became of a job that somebody waits for.
pub enum Done {
    /// A block is durable.
    Written,
    /// The next segment exists, or the disk is full.
    Prepared(Result<(Arc<dyn File>, u64)>),
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    done: Vec<Done>,
    busy: bool,
    stopping: bool,
    /// How many wait for progress: telling nobody would be a system call for nothing.
    waiting: u32,
    /// The bell rings under the lock and hushes under it, so a caller never finds the descriptor
    /// readable without something to take, and pays for hushing only after a ring.
    rung: bool,
}

struct Shared {
    disk: Arc<dyn Disk>,
    state: Mutex<State>,
    work: Condvar,
    progress: Condvar,
    bell: Bell,
    syncs: AtomicU64,
    times: Times,
}

/// See the top of the file.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// A block that the caller has written and not synced yet.
    begun: Option<Begun>,
    /// Blocks until the caller tries again how quick the disk is.
    left_to_thread: u32,
    /// How many they were.
    pause: u32,
}

/// Where a block was written to, and how long that took.
struct Begun(Arc<dyn File>, Duration);

impl Writer {
    /// A writer without a thread: [`Self::run_write`] does the work.
    ///
    /// # Errors
    /// The system's.
    pub fn manual(disk: Arc<dyn Disk>) -> Result<Self> {
        let bell = Bell::new().map_err(|error| Error::io("create an event descriptor", error))?;
        let (state, work, progress) = <(Mutex<State>, Condvar, Condvar)>::default();
        let (syncs, times) = (AtomicU64::new(0), Times::default());
        let shared = Arc::new(Shared { disk, state, work, progress, bell, syncs, times });
        Ok(Self { shared, thread: None, begun: None, left_to_thread: 0, pause: 0 })
    }

    /// A writer with its thread.
    ///
    /// # Errors
    /// The system's.
    pub fn threaded(disk: Arc<dyn Disk>) -> Result<Self> {
        let mut writer = Self::manual(disk)?;
        let shared = writer.shared.clone();
        let thread = std::thread::Builder::new().name("raft-log".to_owned());
        let started = thread.spawn(move || shared.serve());
        writer.thread = Some(started.map_err(|error| Error::io("start the log thread", error))?);
        Ok(writer)
    }

    /// True when the caller has to do the work.
    #[must_use]
    pub fn is_manual(&self) -> bool {
        self.thread.is_none()
    }

    /// True when nothing is queued or being done.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        self.begun.is_none() && !state.busy && state.jobs.is_empty()
    }

    /// The descriptor that becomes readable when [`Self::take_done`] has something.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.shared.bell.descriptor()
    }

    /// Makes the descriptor readable.
    pub fn ring(&self) {
        self.shared.ring(&mut self.shared.lock());
    }

    /// How often a file was synced.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.shared.syncs.load(Ordering::Relaxed)
    }

    /// How many blocks took how long to become durable, and the nanoseconds of all of them.
    #[must_use]
    pub fn sync_times(&self) -> (Vec<u64>, u64) {
        self.shared.times.seen()
    }

    /// Queues a job.
    pub fn give(&self, job: Job) {
        self.shared.lock().jobs.push_back(job);
        self.shared.work.notify_one();
    }

    /// Queues a block; when `here`, begins it at once instead, unless it is large, the thread is at
    /// work or the disk was slow lately: then [`Self::finish_begun`] makes it durable.
    pub fn give_block(&mut self, job: Job, here: bool) {
        self.left_to_thread = self.left_to_thread.saturating_sub(1);
        let is_ours = here && self.left_to_thread == 0 && !self.is_manual() && self.is_idle();
        match job {
            Job::Write { file, offset, block, secret, sequence }
                if is_ours && block.len() <= HERE_BYTES_MAX =>
            {
                let at = Instant::now();
                let written = write(file.as_ref(), offset, block, secret, sequence)
                    .and_then(|bytes| file.begin_sync(offset, bytes));
                self.shared.certain(written.map_err(|error| not_written(offset, error)));
                self.begun = Some(Begun(file, at.elapsed()));
            }
            job => self.give(job),
        }
    }

    /// Makes the block durable that the caller has begun, if there is one.
    pub fn finish_begun(&mut self) {
        let Some(Begun(file, took)) = self.begun.take() else { return };
        let waiting = Instant::now();
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        let synced = file.sync().map_err(|error| Error::io("sync a block", error));
        self.shared.certain(synced);
        let waited = waiting.elapsed();
        self.shared.times.add(took + waited);
        self.shared.lock().done.push(Done::Written);
        let is_slow = waited > PATIENCE;
        let longer = (2 * self.pause).clamp(PAUSE_BLOCKS, PAUSE_BLOCKS_MAX);
        self.pause = if is_slow { longer } else { self.pause / 2 };
        if self.pause >= PAUSE_BLOCKS {
            self.left_to_thread = self.pause;
        }
    }

    /// What was finished since the last call.
    #[must_use]
    pub fn take_done(&self) -> Vec<Done> {
        let mut state = self.shared.lock();
        if std::mem::replace(&mut state.rung, false) {
            self.shared.bell.hush();
        }
        std::mem::take(&mut state.done)
    }

    /// Gives back what [`Self::wait_done`] took and somebody else is waiting for.
    pub fn put_back(&self, done: Done) {
        self.shared.finish(done);
    }

    /// Waits until something is finished.
    #[must_use]
    pub fn wait_done(&self) -> Vec<Done> {
        let mut state = self.shared.lock();
        while state.done.is_empty() && (state.busy || !state.jobs.is_empty()) {
            state.waiting += 1;
            state = self.shared.progress.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        std::mem::take(&mut state.done)
    }

    /// Manual mode: works up to and including the oldest block; false when there is none.
    ///
    /// # Errors
    /// The disk's.
    pub fn run_write(&self) -> Result<bool> {
        loop {
            let Some(job) = self.shared.lock().jobs.pop_front() else { return Ok(false) };
            let is_write = matches!(job, Job::Write { .. });
            if let Some(done) = self.shared.run(job)? {
                self.shared.finish(done);
            }
            if is_write {
                return Ok(true);
            }
        }
    }

    /// Finishes everything that is queued and ends the thread.
    pub fn stop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or_else(|_| std::process::abort());
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, done: Done) {
        let mut state = self.lock();
        state.done.push(done);
        self.tell(&state);
        self.ring(&mut state);
    }

    fn tell(&self, state: &State) {
        if state.waiting > 0 {
            self.progress.notify_all();
        }
    }

    fn ring(&self, state: &mut State) {
        if !std::mem::replace(&mut state.rung, true) {
            self.bell.ring();
        }
    }

    fn run(&self, job: Job) -> Result<Option<Done>> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let (is_write, began) = (matches!(job, Job::Write { .. }), Instant::now());
        let done = run(self.disk.as_ref(), job);
        if is_write {
            self.times.add(began.elapsed());
        }
        done
    }

    fn certain<T>(&self, outcome: Result<T>) -> T {
        outcome.unwrap_or_else(|error| die(&self.disk.label(), &error))
    }

    fn serve(&self) {
        while let Some(job) = self.next() {
            if let Some(done) = self.certain(self.run(job)) {
                self.finish(done);
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        state.busy = false;
        self.tell(&state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.busy = true;
                return Some(job);
            }
            if state.stopping {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// After a failed sync the page cache may claim what the disk does not hold: nothing that this
/// process believes is safe to act on.
fn die(directory: &str, error: &Error) -> ! {
    eprintln!("fastnode: the log in {directory} cannot be written, stopping: {error}");
    // SAFETY: ends the process at once; no destructor may run, since none may touch the log.
    unsafe { libc::_exit(1) }
}

fn run(disk: &dyn Disk, job: Job) -> Result<Option<Done>> {
    match job {
        Job::Write { file, offset, block, secret, sequence } => {
            let written = write(file.as_ref(), offset, block, secret, sequence);
            written.and_then(|_| file.sync()).map_err(|error| not_written(offset, error))?;
            Ok(Some(Done::Written))
        }
        Job::Zero { file, from, to } => {
            let zeroed = zero(file.as_ref(), from, to).and_then(|()| file.sync());
            zeroed.map_err(|error| Error::io(format!("fill from {from} to {to}"), error))?;
            Ok(None)
        }
        Job::Prepare { header, spare, length } => {
            match segment::prepare(disk, &header, spare.as_deref(), length) {
                Err(error) if !error.is_no_space() => Err(error),
                outcome => Ok(Some(Done::Prepared(outcome))),
            }
        }
    }
}

/// Answers how many bytes the sealed block has.
fn write(
    file: &dyn File,
    offset: u64,
    mut block: Vec<u8>,
    secret: u64,
    sequence: u64,
) -> io::Result<u64> {
    block::seal(&mut block, secret, sequence);
    file.write_at(&block, offset)?;
    Ok(block.len() as u64)
}

fn not_written(offset: u64, error: io::Error) -> Error {
    Error::io(format!("write a block at {offset}"), error)
}

/// Writes zeros.
///
/// # Errors
/// The disk's.
pub fn zero(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let count = (to - at).min(ZEROS.len() as u64);
        file.write_at(&ZEROS[..usize::try_from(count).unwrap_or(ZEROS.len())], at)?;
        at += count;
    }
    Ok(())
}
