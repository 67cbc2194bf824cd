//! The server that is measured: synthetic signatures or a store that is given, and pictures.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use boxwork::engine::Engine;
use boxwork::serving::{Opening, Pipelines, Stores};
use boxwork_operators::catalog;
use boxwork_server::{Bound, Config, Limits, Log, Server};

use super::client::{Connection, get};
use super::support::Arguments;
use super::support::store::write_store;

/// Objects that have a picture, unless all need one.
const PICTURES: usize = 64;
/// File systems bound the names of one file.
const NAMES_PER_FILE: usize = 30_000;

/// A running server.
pub struct World {
    pub server: Server,
    /// Requests that compute or wait at once.
    pub places: usize,
    objects: usize,
    workers: usize,
    _folder: tempfile::TempDir,
}

impl World {
    /// Starts a server over the store that the arguments name, or over one of this many objects.
    pub fn new(arguments: &Arguments) -> Self {
        let folder = tempfile::tempdir().expect("the folder can be written to");
        let workers = arguments.get("workers", 2);
        let path = arguments.text("store").map_or_else(|| folder.path().join("objects.arrow"), PathBuf::from);
        if arguments.text("store").is_none() {
            write_store(&path, arguments.get("objects", 20_000));
        }
        let store = boxwork_stores::any_kind::open(&path, None).expect("a store");
        let objects = store.ids_count() as usize;
        let all = arguments.text("what").is_some_and(|what| what.contains("click"));
        let images = folder.path().join("images");
        let names = (0..if all { objects } else { PICTURES.min(objects) } as u64).map(|id| store.name(id));
        draw(&images, names.map(|name| name.expect("a name")));
        let engine = Engine::builder().workers(workers).maps(true).start().expect("the system gives threads");
        let opening = Opening {
            name: "objects".to_owned(),
            path,
            pivots: None,
            sketch: arguments.text("sketch").map(PathBuf::from),
            codes: None,
            lists: None,
            images: Some(images),
            cache: None,
            cache_bytes: 0,
            alpha: None,
            device: Some("cpu".to_owned()),
            image_bytes: 20 << 20,
        };
        let pipelines = Pipelines::load(None, &catalog(), false).expect("the shipped pipelines");
        let stores = Stores::open(Arc::new(engine), &catalog(), pipelines, vec![opening], Log::none());
        let stores = stores.unwrap_or_else(|reason| panic!("{reason}"));
        let limits = Limits { rate: 0, thumbnail_rate: 0, ..Limits::default() }.on_slots(workers);
        let places = limits.computing + limits.waiting;
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let bound = Bound::new(listen).expect("a free port");
        let server =
            bound.serve(Config { limits, ..Config::new(listen) }, Arc::new(stores)).expect("a server");
        Self { server, places, objects, workers, _folder: folder }
    }

    pub fn at(&self) -> SocketAddr {
        self.server.address()
    }

    pub fn objects(&self) -> usize {
        self.objects
    }

    pub fn workers(&self) -> usize {
        self.workers
    }

    /// The store in a few words, as the server tells them.
    pub fn about(&self) -> String {
        let store = Connection::new(self.at()).ask(&get("/v1/stores/objects")).json();
        format!(
            "{} {}, {}, rounds by mode {}; {} slots, {} requests compute or wait",
            store["objects"], store["kind"], store["measure"], store["mode"], self.workers, self.places
        )
    }
}

/// Puts a picture under each of these names.
fn draw(folder: &Path, names: impl Iterator<Item = String>) {
    let noise =
        image::RgbImage::from_fn(400, 300, |x, y| image::Rgb([(x * 7) as u8, (y * 5) as u8, (x ^ y) as u8]));
    let mut file = PathBuf::new();
    for (nth, name) in names.enumerate() {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        if nth % NAMES_PER_FILE == 0 {
            noise.save_with_format(&path, image::ImageFormat::Jpeg).expect("a picture");
            file = path;
        } else {
            std::fs::hard_link(&file, &path).expect("another name of the picture");
        }
    }
}
