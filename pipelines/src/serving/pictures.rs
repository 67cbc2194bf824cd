//! Thumbnails: made by the engine, and kept in memory within a budget.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use boxwork_runtime::parameter::Value;
use boxwork_server::Refusal;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::ask::Ready;
use super::objects::internal;
use crate::engine::Engine;

/// Bytes of thumbnails in memory, of one store.
const BYTES_MAX: usize = 64 << 20;
/// Thumbnails that are made at once; others wait.
const MADE_AT_ONCE: usize = 8;

#[derive(Debug, Default)]
struct Kept {
    jpegs: HashMap<(u64, u32), Bytes>,
    order: VecDeque<(u64, u32)>,
    bytes: usize,
}

/// The thumbnails of one state of a store.
pub(super) struct Thumbnails {
    ready: Ready,
    kept: Mutex<Kept>,
    making: Semaphore,
    /// Thumbnails that were in memory, and that were not.
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
}

impl Thumbnails {
    pub(super) fn new(ready: Ready) -> Self {
        Self {
            ready,
            kept: Mutex::default(),
            making: Semaphore::new(MADE_AT_ONCE),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }

    /// The picture of an object, at most this wide and high.
    pub(super) async fn get(
        &self,
        engine: &Engine,
        id: u64,
        name: &str,
        size: u32,
    ) -> Result<Bytes, Refusal> {
        let known = self.kept.lock().jpegs.get(&(id, size)).cloned();
        if let Some(jpeg) = known {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(jpeg);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let _permit = self.making.acquire().await.map_err(internal)?;
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(UInt64Array::from(vec![id]))),
            ("name", Arc::new(StringArray::from(vec![name]))),
        ];
        let asked = RecordBatch::try_from_iter(columns).map_err(internal)?;
        let values = BTreeMap::from([("size".to_owned(), Value::Integer(i64::from(size)))]);
        let (batches, _) = self.ready.ask(engine, values, Some(vec![asked]), None).await?;
        let jpeg = batches.iter().find(|batch| batch.num_rows() > 0);
        let jpeg = jpeg.map(|batch| Bytes::copy_from_slice(batch["jpeg"].as_binary::<i32>().value(0)));
        match jpeg.filter(|jpeg| !jpeg.is_empty()) {
            Some(jpeg) => {
                self.keep((id, size), &jpeg);
                Ok(jpeg)
            }
            None => {
                Err(Refusal::NotFound("the object's picture is missing, or cannot be decoded".to_owned()))
            }
        }
    }

    fn keep(&self, key: (u64, u32), jpeg: &Bytes) {
        let mut kept = self.kept.lock();
        if jpeg.len() > BYTES_MAX || kept.jpegs.contains_key(&key) {
            return;
        }
        while kept.bytes + jpeg.len() > BYTES_MAX {
            let Some(oldest) = kept.order.pop_front() else { break };
            kept.bytes -= kept.jpegs.remove(&oldest).map_or(0, |jpeg| jpeg.len());
        }
        kept.bytes += jpeg.len();
        kept.order.push_back(key);
        kept.jpegs.insert(key, jpeg.clone());
    }
}
