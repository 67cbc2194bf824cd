//! `boxwork reference`: the reference pages of the guide.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use boxwork_runtime::operator::Catalog;

use super::say;
use crate::reference;
use crate::terminal::Exit;

/// Writes the reference pages of the guide: boxes.md and commands.md
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The folder for the pages; it is made if it is missing
    folder: PathBuf,
}

/// Runs the subcommand. Pages that are there already are replaced, as no other content is in them.
pub fn run(catalog: &Catalog, arguments: &Arguments) -> Exit {
    let pages = [
        ("boxes.md", reference::boxes(catalog)),
        ("commands.md", reference::commands(&super::command_line())),
    ];
    for (name, page) in pages {
        let path = arguments.folder.join(name);
        if let Err(error) = write(&path, &page) {
            say(format_args!("error: `{}` cannot be written: {error}", path.display()));
            return Exit::Failed;
        }
    }
    Exit::Ok
}

fn write(path: &Path, page: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, page)
}
