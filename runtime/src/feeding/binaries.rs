//! Compiled programs on disk: a folder that keeps the most recently used binaries.
//!
//! A file's name is the program and a hash of its key, which contains everything that the binary depends on. The file
//! contains the key too, and a reader compares it. Invariants: a file gets its name only when it is whole, so any
//! number of processes may use one folder; a damaged file counts as missing; after a write the folder has at most
//! [`FILES_MAX`] programs, and only programs are removed from it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The first bytes of a file, up to the version of its form.
const MAGIC: &str = "boxwork program ";
const FILE_HEAD: &str = "boxwork program 2\n";

/// The suffixes of the files' names; an unfinished file has the second after the first.
const PROGRAM: &str = ".program";
const UNFINISHED: &str = ".unfinished";

/// Programs that a folder keeps: enough for some releases, devices and constants.
const FILES_MAX: usize = 256;

/// An unfinished file of this age is left from a killed process.
const UNFINISHED_MAX: Duration = Duration::from_secs(3600);

/// The folder of binaries: `BOXWORK_CACHE`, else the user's folder of caches; none if neither is known.
pub(super) fn cache_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(own) = folder("BOXWORK_CACHE") {
        return Some(own);
    }
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("boxwork"))
}

/// The binary of a key, if the folder has it.
pub(super) fn read(folder: &Path, program: &str, key: &str) -> Option<Vec<u8>> {
    let path = folder.join(file_name(program, key));
    let mut file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let rest = bytes.strip_prefix(FILE_HEAD.as_bytes())?;
    let number = |digits: &[u8]| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let (length, sum) = (number(rest.get(..16)?)?, number(rest.get(16..32)?)?);
    let content = &rest[32..];
    let binary = content.strip_prefix(key.as_bytes())?;
    if length != key.len() as u64 || stable_hash(binary) != sum {
        return None;
    }
    // Marks the file as used; without write access the mark is lost.
    let _ = file.set_modified(SystemTime::now());
    Some(binary.to_vec())
}

/// Keeps the binary of a key, and removes the least recently used programs if there are too many.
pub(super) fn write(folder: &Path, program: &str, key: &str, binary: &[u8]) -> io::Result<()> {
    let mut bytes = format!("{FILE_HEAD}{:016x}{:016x}", key.len(), stable_hash(binary)).into_bytes();
    bytes.extend_from_slice(key.as_bytes());
    bytes.extend_from_slice(binary);
    fs::create_dir_all(folder)?;
    let name = file_name(program, key);
    // Under a name of its own until it is whole: other processes may read and write this file.
    let unfinished = folder.join(format!("{name}.{}-{:p}{UNFINISHED}", std::process::id(), &raw const bytes));
    let written = fs::write(&unfinished, &bytes).and_then(|()| fs::rename(&unfinished, folder.join(name)));
    written.inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
    prune(folder, FILES_MAX)
}

/// Removes the least recently used programs down to `files_max`, and files that killed processes have left.
fn prune(folder: &Path, files_max: usize) -> io::Result<()> {
    let mut programs = Vec::new();
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name();
        // Another process may have removed it meanwhile.
        let (Some(name), Ok(metadata)) = (name.to_str(), entry.metadata()) else { continue };
        let (Ok(modified), true) = (metadata.modified(), metadata.is_file()) else { continue };
        if is_program(name) {
            programs.push((modified, entry.path()));
        } else if name.strip_suffix(UNFINISHED).is_some_and(|name| name.contains(PROGRAM))
            && modified.elapsed().is_ok_and(|age| age > UNFINISHED_MAX)
        {
            let _ = fs::remove_file(entry.path());
        }
    }
    programs.sort_unstable();
    let too_many = programs.len().saturating_sub(files_max);
    for (_, path) in &programs[..too_many] {
        // A user may have named this folder: files that are not ours stay.
        if begins_as_program(path) {
            let _ = fs::remove_file(path);
        }
    }
    Ok(())
}

fn file_name(program: &str, key: &str) -> String {
    debug_assert!(
        !program.contains(['/', '\\']),
        "the name of a program is a path: its file would lie in another folder"
    );
    let name = format!("{program}-{:016x}{PROGRAM}", stable_hash(key.as_bytes()));
    debug_assert!(is_program(&name), "a program is kept in a file that is never removed");
    name
}

/// Whether a file may have been named by [`file_name`].
fn is_program(name: &str) -> bool {
    let hash = name.strip_suffix(PROGRAM).and_then(|name| name.rsplit_once('-'));
    hash.is_some_and(|(_, hash)| hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

fn begins_as_program(path: &Path) -> bool {
    let mut head = [0; MAGIC.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *MAGIC.as_bytes()
}

/// FNV-1a in 64 bits: identical in every build of this program, so that one folder serves all builds.
fn stable_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("boxwork-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_hash_is_that_of_every_build() {
        // The reference values of FNV-1a.
        assert_eq!(stable_hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(stable_hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(stable_hash(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_kept_binary_is_read_back_and_a_damaged_one_is_not() {
        let folder = Folder::new("binaries");
        let read = |key| read(&folder.0, "scale", key);
        write(&folder.0, "scale", "the key", b"binary").unwrap();
        assert_eq!(read("the key").as_deref(), Some(b"binary".as_slice()));
        assert_eq!(read("the kez"), None);
        let file = folder.0.join(file_name("scale", "the key"));
        let sound = fs::read(&file).unwrap();
        for place in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[place] ^= 1;
            fs::write(&file, &bytes).unwrap();
            assert_eq!(read("the key"), None, "byte {place} went unnoticed");
        }
        for length in 0..sound.len() {
            fs::write(&file, &sound[..length]).unwrap();
            assert_eq!(read("the key"), None);
        }
    }

    #[test]
    fn a_folder_keeps_the_last_used_programs_and_foreign_files() {
        let folder = Folder::new("pruned");
        let foreign = ["notes.program", "notes-0123456789abcdef.program", "readme.txt"];
        foreign.iter().for_each(|name| fs::write(folder.0.join(name), "not ours").unwrap());
        let long_ago = SystemTime::now() - Duration::from_secs(7200);
        let aged = |name: &str, after: u64| {
            let file = File::options().write(true).open(folder.0.join(name)).unwrap();
            file.set_modified(long_ago + Duration::from_secs(after)).unwrap();
        };
        aged(foreign[1], 0);
        let key = |number: u64| format!("key {number}");
        for number in 0..6 {
            write(&folder.0, "scale", &key(number), b"binary").unwrap();
            aged(&file_name("scale", &key(number)), 1 + number);
        }
        let left = folder.0.join("scale-0000000000000000.program.1-0x1.unfinished");
        fs::write(&left, "by a process that was killed").unwrap();
        aged("scale-0000000000000000.program.1-0x1.unfinished", 0);
        // Used since, so it is the latest.
        assert!(read(&folder.0, "scale", &key(0)).is_some());
        prune(&folder.0, 4).unwrap();
        let kept: Vec<u64> =
            (0..6).filter(|number| read(&folder.0, "scale", &key(*number)).is_some()).collect();
        assert_eq!(kept, [0, 3, 4, 5], "1 and 2 were used least recently");
        assert!(foreign.iter().all(|name| folder.names().iter().any(|kept| kept == name)));
        assert!(!left.exists());
    }
}
