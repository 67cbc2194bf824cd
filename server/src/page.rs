//! The page: every file of `server/page/`, embedded when the server is compiled.
//!
//! Invariant: the page loads nothing from elsewhere, and no name of a client reaches the disk.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::answer::{content, escaped};
use crate::problem::{self, Kind, Problem};
use crate::segments::Segments;

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its name.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        /// Every file of the page.
        pub const ASSETS: &[Asset] = &[$(Asset {
            name: $name,
            bytes: include_bytes!(concat!("../page/", $name)),
        }),*];
    };
}

// A new file of the page is a line here; a test compares the list with the folder.
assets! {
    "actions.js",
    "api.js",
    "app.js",
    "bar.js",
    "busy.js",
    "card.js",
    "dialog.js",
    "dom.js",
    "grid.js",
    "help.js",
    "history.js",
    "http.js",
    "icon.svg",
    "index.html",
    "keys.js",
    "marks.js",
    "model.js",
    "picture.js",
    "recent.js",
    "route.js",
    "say.js",
    "search.js",
    "session.js",
    "share.js",
    "start.js",
    "style.css",
    "theme.js",
    "token.js",
    "trays.js",
    "upload.js",
    "why.js",
    "words.js",
}

impl Asset {
    /// The media type, by the name's ending.
    fn media_type(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "application/octet-stream",
        }
    }
}

/// The page itself.
#[utoipa::path(get, path = "/", responses((status = 200, content_type = "text/html")))]
pub async fn index(headers: HeaderMap) -> Result<Response<Body>, Problem> {
    file("index.html", &headers)
}

/// A file of the page.
#[utoipa::path(get, path = "/assets/{name}", params(("name" = String, Path)), responses((status = 200)))]
pub async fn asset(Segments(name): Segments<String>, headers: HeaderMap) -> Result<Response<Body>, Problem> {
    file(&name, &headers)
}

fn file(name: &str, headers: &HeaderMap) -> Result<Response<Body>, Problem> {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    let asset = asset.ok_or_else(|| Problem::new(Kind::NOT_FOUND, "the page has no such file"))?;
    let tag = format!("\"{:08x}\"", crc32fast::hash(asset.bytes));
    let known = headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let mut response = if known == Some(tag.as_str()) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        content(asset.media_type(), asset.bytes)
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    Ok(response)
}

/// The page on a kind of error.
#[utoipa::path(get, path = "/problems/{name}", params(("name" = String, Path)),
    responses((status = 200, content_type = "text/html")))]
pub async fn about(Segments(name): Segments<String>) -> Result<Response<Body>, Problem> {
    let kind = problem::find(&name);
    let kind = kind.ok_or_else(|| Problem::new(Kind::NOT_FOUND, "there is no such kind of error"))?;
    let Kind { name, status, title, about } = *kind;
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n<h1>{title}</h1>\n\
         <p>Status {status}, type <code>/problems/{name}</code>.</p>\n<p>{}</p>\n</html>\n",
        escaped(about)
    );
    Ok(content("text/html; charset=utf-8", page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort_unstable();
        let mut names: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        names.sort_unstable();
        assert_eq!(names, files, "server/src/page.rs lists the files of server/page");
    }
}
