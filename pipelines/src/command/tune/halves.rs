//! Two folders of links to pictures: one to choose settings by, one to check them.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use boxwork_operators::list_images;

/// Pictures of a class that are needed: two in each half, so that each finds another one.
const PER_CLASS_MIN: usize = 4;

/// Half of the pictures of each class, twice.
#[derive(Debug)]
pub(super) struct Halves {
    /// The folder of the pictures by which settings are chosen.
    pub(super) choosing: PathBuf,
    /// The folder of those by which they are checked.
    pub(super) checking: PathBuf,
    classes: usize,
    pictures: usize,
    found: usize,
    small: usize,
}

impl fmt::Display for Halves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { classes, pictures, found, small, .. } = self;
        write!(f, "{pictures} of {found} pictures, in {classes} classes")?;
        if *small > 0 {
            let plural = if *small == 1 { "" } else { "es" };
            write!(f, "; {small} class{plural} of fewer than {PER_CLASS_MIN} left out")?;
        }
        Ok(())
    }
}

impl Halves {
    /// Links at most `most` pictures below `out`, in turns to one half and the other, spread evenly over each class.
    ///
    /// # Errors
    /// Names the fault of the folder, and the fix.
    pub(super) fn link(folder: &Path, out: &Path, most: usize) -> Result<Self, String> {
        let files = list_images(folder).map_err(|error| error.to_string())?;
        let found = files.len();
        let mut classes: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for (path, name) in files {
            let class = name.rsplit_once('/').map_or("", |(class, _)| class);
            classes.entry(class.to_owned()).or_default().push(path);
        }
        let all = classes.len();
        classes.retain(|_, paths| paths.len() >= PER_CLASS_MIN);
        if classes.len() < 2 {
            return Err(format!(
                "`{}` has too few classes of {PER_CLASS_MIN} pictures or more: {}, and settings are judged by two or more: \
                 put the pictures of each class into a folder of its own",
                folder.display(),
                classes.len()
            ));
        }
        let per_class = (most / classes.len()).max(PER_CLASS_MIN);
        let ours = out.join("pictures");
        let [choosing, checking] = ["choose", "check"].map(|half| ours.join(half));
        if choosing.to_str().is_none_or(|path| path.contains('"')) {
            return Err(format!(
                "--out: `{}` has a quote, or is not UTF-8: name another folder",
                out.display()
            ));
        }
        let (mut pictures, mut list) = (Vec::new(), String::new());
        for (class, paths) in &classes {
            let used = per_class.min(paths.len());
            for nth in 0..used {
                let half = if nth % 2 == 0 { &choosing } else { &checking };
                let picture = &paths[nth * paths.len() / used];
                let _ = writeln!(list, "{class}/{nth} {}", state(picture)?);
                pictures.push((picture, half.join(class), nth));
            }
        }
        keep_list(&out.join("pictures.txt"), &list)?;
        for (picture, folder, nth) in &pictures {
            link(picture, folder, *nth)?;
        }
        let (small, classes) = (all - classes.len(), classes.len());
        Ok(Self { choosing, checking, small, classes, pictures: pictures.len(), found })
    }
}

/// A picture and what tells that it has changed.
fn state(picture: &Path) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("`{}` cannot be read: {error}", picture.display());
    let metadata = picture.metadata().map_err(failed)?;
    let modified = metadata.modified().map_err(failed)?;
    Ok(format!("{} {} {modified:?}", picture.canonicalize().map_err(failed)?.display(), metadata.len()))
}

/// Writes the list of the pictures, if there is none; rows of other pictures must not be taken for rows of these.
fn keep_list(path: &Path, list: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("`{}` cannot be written: {error}", path.display());
    match fs::read_to_string(path) {
        Ok(old) if old == list => Ok(()),
        Ok(_) => Err(format!(
            "`{}` lists other pictures, or pictures that have changed since: remove its folder, or give another one \
             with --out",
            path.display()
        )),
        Err(_) => {
            fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
            fs::write(path, list).map_err(failed)
        }
    }
}

/// Links a picture into a folder, with its ending.
fn link(picture: &Path, folder: &Path, nth: usize) -> Result<(), String> {
    let ending = picture.extension().map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
    let link = folder.join(format!("{nth:06}{ending}"));
    let failed = |error: std::io::Error| format!("`{}` cannot be made: {error}", link.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let target = picture.canonicalize().map_err(failed)?;
    if fs::symlink_metadata(&link).is_ok() {
        return Ok(());
    }
    #[cfg(unix)]
    let made = std::os::unix::fs::symlink(&target, &link);
    #[cfg(not(unix))]
    let made = fs::copy(&target, &link).map(drop);
    made.map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pictures(folder: &Path, classes: &[(&str, usize)]) {
        for (class, count) in classes {
            fs::create_dir_all(folder.join(class)).expect("a folder");
            for nth in 0..*count {
                fs::write(folder.join(class).join(format!("{nth}.jpg")), class).expect("a file");
            }
        }
    }

    fn links(half: &Path) -> usize {
        let classes = fs::read_dir(half).expect("a half");
        classes.map(|class| fs::read_dir(class.expect("a class").path()).expect("links").count()).sum()
    }

    #[test]
    fn each_half_has_half_of_each_class() {
        let folder = tempfile::tempdir().expect("a folder");
        let (photos, out) = (folder.path().join("photos"), folder.path().join("out"));
        pictures(&photos, &[("a", 10), ("b", 7), ("c", 3)]);
        let halves = Halves::link(&photos, &out, 100).expect("linked");
        assert_eq!((links(&halves.choosing), links(&halves.checking)), (5 + 4, 5 + 3));
        assert_eq!(halves.to_string(), "17 of 20 pictures, in 2 classes; 1 class of fewer than 4 left out");
        let first = fs::canonicalize(halves.checking.join("a/000001.jpg")).expect("a picture");
        assert_eq!(first, fs::canonicalize(photos.join("a/1.jpg")).expect("a picture"));
        Halves::link(&photos, &out, 100).expect("the same pictures");
        let message = Halves::link(&photos, &out, 8).expect_err("other pictures");
        assert!(message.contains("pictures.txt") && message.contains("--out"), "{message}");
        assert_eq!(links(&halves.choosing), 9, "nothing was linked");
        let few = Halves::link(&photos, &folder.path().join("few"), 8).expect("linked");
        assert_eq!((links(&few.choosing), links(&few.checking)), (4, 4));
    }

    #[test]
    fn a_folder_without_classes_is_refused_with_the_fix() {
        let folder = tempfile::tempdir().expect("a folder");
        pictures(folder.path(), &[("a", 10), ("b", 3)]);
        let message = Halves::link(folder.path(), &folder.path().join("out"), 100).expect_err("one class");
        assert!(message.contains("or more: 1, and") && message.contains("a folder of its own"), "{message}");
    }
}
