//! Pictures that a folder keeps, within a budget of bytes.
//!
//! Invariants: a picture appears under its name whole; the name depends on the file's path, size and time, so a changed
//! file has another; the oldest pictures go when the budget is exceeded.

use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{SystemTime, UNIX_EPOCH};

use boxwork_stores::signature_store::TemporaryFile;

/// The ending of kept pictures; other files of the folder are left alone.
const ENDING: &str = ".thumbnail.jpg";

/// The name of a kept picture.
#[derive(Clone, Debug)]
pub(super) struct Key(String);

impl Key {
    /// The name for a file of a folder, as it is now.
    pub(super) fn new(images: &Path, name: &str, metadata: &Metadata, size: u32) -> Self {
        let modified = metadata.modified().unwrap_or(UNIX_EPOCH).duration_since(UNIX_EPOCH);
        let modified = modified.map_or(0, |since| since.as_nanos());
        let hash = |seed: u64| {
            // Two sums of 64 bits: a collision would show another picture.
            let mut hasher = DefaultHasher::new();
            (seed, images, name, metadata.len(), modified, size).hash(&mut hasher);
            hasher.finish()
        };
        Self(format!("{:016x}{:016x}{ENDING}", hash(1), hash(2)))
    }
}

/// A folder of pictures.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    bytes_max: u64,
    /// Bytes of the kept pictures.
    bytes: Mutex<u64>,
}

impl Cache {
    /// The pictures of a folder, which is made if there is none.
    pub(super) fn open(folder: PathBuf, bytes_max: u64) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        let bytes = kept(&folder)?.iter().map(|(_, _, bytes)| bytes).sum();
        Ok(Self { folder, bytes_max, bytes: Mutex::new(bytes) })
    }

    /// The picture of this name.
    pub(super) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        fs::read(self.folder.join(&key.0)).ok()
    }

    /// Keeps a picture.
    pub(super) fn put(&self, key: &Key, jpeg: &[u8]) -> io::Result<()> {
        let bytes = jpeg.len() as u64;
        if bytes > self.bytes_max {
            return Ok(());
        }
        let mut total = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if *total + bytes > self.bytes_max {
            *total = self.shrink(self.bytes_max - self.bytes_max / 8 - bytes.min(self.bytes_max / 8))?;
        }
        *total += bytes;
        drop(total);
        let mut file = TemporaryFile::create(&self.folder.join(&key.0))?;
        file.write_all(jpeg)?;
        file.keep()
    }

    /// Removes the oldest pictures until at most this is left. Returns what is left.
    fn shrink(&self, target: u64) -> io::Result<u64> {
        let mut pictures = kept(&self.folder)?;
        pictures.sort();
        let mut left: u64 = pictures.iter().map(|(_, _, bytes)| bytes).sum();
        for (_, path, bytes) in pictures {
            if left <= target {
                break;
            }
            // Another process may have removed it.
            let _ = fs::remove_file(path);
            left -= bytes;
        }
        Ok(left)
    }
}

/// The kept pictures of a folder: time, path and bytes.
fn kept(folder: &Path) -> io::Result<Vec<(SystemTime, PathBuf, u64)>> {
    let mut pictures = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().ends_with(ENDING) {
            continue;
        }
        if let Ok(metadata) = entry.metadata() {
            pictures.push((metadata.modified().unwrap_or(UNIX_EPOCH), entry.path(), metadata.len()));
        }
    }
    Ok(pictures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_beyond_the_budget() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("other.jpg"), vec![0; 5000]).unwrap();
        let cache = Cache::open(folder.path().to_owned(), 1000).unwrap();
        let key = |name: &str| Key(format!("{name}{ENDING}"));
        for idx in 0..40 {
            cache.put(&key(&format!("{idx:02}")), &[idx; 100]).unwrap();
            let kept: u64 = kept(folder.path()).unwrap().iter().map(|(_, _, bytes)| bytes).sum();
            assert!(kept <= 1000, "{kept}");
        }
        assert_eq!(cache.get(&key("39")), Some(vec![39; 100]));
        cache.put(&key("large"), &[0; 1001]).unwrap();
        assert!(cache.get(&key("large")).is_none() && folder.path().join("other.jpg").exists());
        let again = Cache::open(folder.path().to_owned(), 1000).unwrap();
        assert!(*again.bytes.lock().unwrap() <= 1000);
    }
}
