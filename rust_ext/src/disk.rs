//! What the log needs from a disk, and the real one. The simulated one is in `simdisk.rs`.
//!
//! A disk is one flat directory. Names are plain file names.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open file; may be used from two threads at once.
pub trait File: Send + Sync {
    /// Reads at most `buffer.len()` bytes at `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// The system's.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// The system's; after one the content is unknown.
    fn sync(&self) -> io::Result<()>;
    /// Lets the device begin with what was written there, so that a sync has less to wait for.
    ///
    /// # Errors
    /// The system's; after one the content is unknown.
    fn begin_sync(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
    /// Makes sure that writes from `from` to `end` cannot run out of space, growing the file if
    /// needed. Nobody may write there meanwhile: some file systems fill the range by hand.
    ///
    /// # Errors
    /// The system's, typically that the disk is full.
    fn allocate(&self, from: u64, end: u64) -> io::Result<()>;
    /// The file's length.
    ///
    /// # Errors
    /// The system's.
    fn length(&self) -> io::Result<u64>;
}

/// A directory of files.
pub trait Disk: Send + Sync {
    /// Opens an existing file.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Creates a file, or empties an existing one.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Gives a file another name.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// All names, sorted.
    ///
    /// # Errors
    /// The system's.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes creations, renames and removals durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_directory(&self) -> io::Result<()>;
    /// Bytes that may still be allocated.
    ///
    /// # Errors
    /// The system's.
    fn free_bytes(&self) -> io::Result<u64>;
    /// A number that nobody outside can guess.
    ///
    /// # Errors
    /// The system's.
    fn secret(&self) -> io::Result<u64>;
    /// How the directory is called in messages to the operator.
    fn label(&self) -> String;
}

/// A directory of the operating system.
pub struct RealDisk {
    directory: PathBuf,
    handle: fs::File,
    is_synced: bool,
}

impl RealDisk {
    /// Opens the directory, creating it when it is missing. Without `is_synced` nothing is ever
    /// synced: for tests and benchmarks only.
    ///
    /// # Errors
    /// The system's.
    pub fn new(directory: &Path, is_synced: bool) -> io::Result<Self> {
        if !directory.is_dir() {
            fs::create_dir_all(directory)?;
            if let (true, Some(parent)) = (is_synced, directory.parent()) {
                let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                fs::File::open(parent)?.sync_all()?;
            }
        }
        let handle = fs::File::open(directory)?;
        Ok(Self { directory: directory.to_owned(), handle, is_synced })
    }

    fn wrap(&self, file: fs::File) -> Arc<dyn File> {
        Arc::new(RealFile { file, is_synced: self.is_synced })
    }
}

impl Disk for RealDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let path = self.directory.join(name);
        Ok(self.wrap(fs::OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let path = self.directory.join(name);
        let mut options = fs::OpenOptions::new();
        Ok(self.wrap(options.read(true).write(true).create(true).truncate(true).open(path)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.directory.join(from), self.directory.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.directory.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in fs::read_dir(&self.directory)? {
            names.push(item?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn sync_directory(&self) -> io::Result<()> {
        if self.is_synced { self.handle.sync_all() } else { Ok(()) }
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let path = CString::new(self.directory.as_os_str().as_bytes())?;
        // SAFETY: a zeroed statvfs is a valid value of this plain C struct.
        let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are valid for the duration of the call.
        if unsafe { libc::statvfs(path.as_ptr(), &raw mut facts) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
    }

    fn secret(&self) -> io::Result<u64> {
        let mut bytes = [0_u8; 8];
        // SAFETY: the buffer is valid for eight bytes.
        let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        if got == 8 { Ok(u64::from_le_bytes(bytes)) } else { Err(io::Error::last_os_error()) }
    }

    fn label(&self) -> String {
        self.directory.display().to_string()
    }
}

struct RealFile {
    file: fs::File,
    is_synced: bool,
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if self.is_synced { self.file.sync_data() } else { Ok(()) }
    }

    fn begin_sync(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if !self.is_synced {
            return Ok(());
        }
        let offset = libc::off64_t::try_from(offset).map_err(io::Error::other)?;
        let bytes = libc::off64_t::try_from(bytes).map_err(io::Error::other)?;
        let (file, how) = (self.file.as_raw_fd(), libc::SYNC_FILE_RANGE_WRITE);
        // SAFETY: the descriptor is open as long as `self.file` lives.
        if unsafe { libc::sync_file_range(file, offset, bytes, how) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // Where the system cannot do it, or must not, nothing has begun, and the sync does it all.
        match error.raw_os_error() {
            Some(libc::EIO | libc::ENOSPC | libc::EDQUOT) => Err(error),
            _ => Ok(()),
        }
    }

    fn allocate(&self, from: u64, end: u64) -> io::Result<()> {
        if end <= from {
            return Ok(());
        }
        let length = libc::off_t::try_from(end - from).map_err(io::Error::other)?;
        let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open as long as `self.file` lives.
        match unsafe { libc::posix_fallocate(self.file.as_raw_fd(), from, length) } {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
