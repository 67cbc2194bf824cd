//! `boxwork schema`: the JSON schema of pipelines, for editors.

use boxwork_runtime::operator::Catalog;

use super::data_json;
use crate::schema;
use crate::terminal::Exit;

/// Prints the JSON schema of pipelines, for completion and checks in an editor
///
/// Write it to a file and name it in a pipeline's first line:
/// # yaml-language-server: $schema=boxwork.schema.json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

/// Runs the subcommand.
pub fn run(catalog: &Catalog, _arguments: &Arguments) -> Exit {
    data_json(&schema::schema(catalog))
}
