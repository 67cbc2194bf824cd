//! Lists in maps say what lists in memory say, take little memory, and notice damage.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, Float32Array, ListArray, StringArray};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Metadata};
use boxwork_kernels::chance::Random;
use boxwork_kernels::panels::PANEL;
use boxwork_kernels::pieces::one_by_one;

use super::layout::{self, Columns};
use super::{Assigned, Coding, Lists, ListsError, ListsOptions, Training, vectors_for, write};
use crate::arrow_file::{tail_checksum, tail_digits};
use crate::kinds::Vectors;
use crate::object_store::{Access, Rows};
use crate::packed_file::{PackedBatch, PackedWriter};
use crate::space::Space;
use crate::spaces::{self, DistanceOptions};
use crate::store::Store;

const DIMENSIONS: usize = 300;
const COUNT: usize = 9000;
const LISTS: u32 = 24;
const CODINGS: [Coding; 4] = [Coding::Rows, Coding::Product, Coding::Fast, Coding::Rabitq];

/// A space of vectors in clusters, whose rows take several batches, without the removed ones.
fn space(distance: &str, removed: Vec<u64>) -> Arc<dyn Space> {
    space_of(COUNT, distance, removed)
}

fn space_of(count: usize, distance: &str, removed: Vec<u64>) -> Arc<dyn Space> {
    let mut random = Random::new(117);
    let centres: Vec<f32> = (0..12 * DIMENSIONS).map(|_| 9.0 * random.normal_f32()).collect();
    let mut rows = Rows::new(Vectors::new(DIMENSIONS));
    for first in (0..count).step_by(1000) {
        let numbers: Vec<f32> = (0..1000)
            .flat_map(|_| {
                let centre = random.idx(12) * DIMENSIONS;
                (0..DIMENSIONS).map(|j| centres[centre + j] + random.normal_f32()).collect::<Vec<_>>()
            })
            .collect();
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let offsets = OffsetBuffer::from_repeated_length(DIMENSIONS, 1000);
        let lists: ArrayRef =
            Arc::new(ListArray::new(item, offsets, Arc::new(Float32Array::from(numbers)), None));
        let names = (first..first + 1000).map(|row| row.to_string());
        rows.append(StringArray::from_iter_values(names), &[lists]).unwrap();
    }
    let store = rows.finish_without(removed, Path::new("rows"), None).unwrap();
    spaces::open(&DistanceOptions::named(distance), Arc::new(store) as Arc<dyn Store>).unwrap()
}

fn write_lists(space: &Arc<dyn Space>, coding: Coding, path: &Path) {
    let options =
        ListsOptions { lists: Some(LISTS as usize), iterations: 3, seed: 1, ..ListsOptions::of(coding) };
    let training = Training::new(space, options).unwrap();
    let quantizers = training.train(&mut one_by_one()).unwrap().unwrap();
    let ids: Vec<u64> = space.store().among(0..space.store().ids_count()).collect();
    let vectors = vectors_for(super::measure(&**space).unwrap(), &**space.store(), &ids, DIMENSIONS).unwrap();
    let (lists, codes) = quantizers.assign(&vectors);
    write(path, space, &quantizers, &Assigned { ids, lists, codes }, &|| false).unwrap();
}

/// The ids of a list that a query of an object keeps, with the bits of their scores.
fn found(lists: &Lists, list: u32, id: u64) -> Result<Vec<(u64, u32)>, ListsError> {
    lists.bring_in(&[list], &|| false)?;
    assert!(lists.has(&[list]));
    let mut query = super::vectors(&**lists.space().store(), &[id]).unwrap();
    lists.prepare(&mut query);
    let mut kept = vec![lists.shortlist(&query, 20, f64::INFINITY)];
    lists.scan(list, &lists.queries(query), &[0], None, &mut kept);
    let mut kept: Vec<(u64, u32)> =
        kept[0].kept().iter().map(|(score, place)| (lists.id(*place), score.to_bits())).collect();
    kept.sort_unstable();
    lists.confirm()?;
    Ok(kept)
}

fn found_in_all(lists: &Lists) -> Result<Vec<Vec<(u64, u32)>>, ListsError> {
    (0..LISTS).map(|list| found(lists, list, 3)).collect()
}

/// Puts the checksum of a tail right.
fn seal(file: &mut [u8]) {
    let length = file.len();
    let footer = u32::from_le_bytes(*file[length - 10..].first_chunk().unwrap()) as usize;
    let tail = &mut file[length - footer - 18..];
    let digits = tail_digits(tail).unwrap();
    let checksum = tail_checksum(tail, &digits);
    tail[digits].copy_from_slice(checksum.as_bytes());
}

/// Puts the checksums of the head and of all batches right, and that of the tail.
fn seal_all(file: &mut [u8]) {
    let length = file.len();
    let footer_bytes = u32::from_le_bytes(*file[length - 10..].first_chunk().unwrap()) as usize;
    let start = length - 10 - footer_bytes;
    let footer = arrow_ipc::root_as_footer(&file[start..length - 10]).unwrap();
    let blocks: Vec<_> = footer.recordBatches().unwrap().iter().copied().collect();
    let metadata = footer.custom_metadata().unwrap();
    let mut entries = (0..metadata.len()).map(|idx| metadata.get(idx));
    let text =
        entries.find(|entry| entry.key() == Some("boxwork.checksums")).unwrap().value().unwrap().to_owned();
    let at = file.windows(text.len()).rposition(|bytes| bytes == text.as_bytes()).unwrap();
    let sum = |from: i64, bytes: i64| crc32fast::hash(&file[from as usize..(from + bytes) as usize]);
    let head = sum(0, blocks[0].offset());
    let mut sums = vec![format!("head={head:08x}")];
    for (block, part) in blocks.iter().zip(text.split(';').skip(2)) {
        let checksum = sum(block.offset(), i64::from(block.metaDataLength()) + block.bodyLength());
        sums.push(format!("{},{checksum:08x}", part.split(',').next().unwrap()));
    }
    let sums = format!("{};{}", text.split(';').next().unwrap(), sums.join(";"));
    file[at..at + text.len()].copy_from_slice(sums.as_bytes());
    seal(file);
}

/// A file without a note, as an earlier program wrote it.
fn without_note(file: &[u8], key: &str) -> Vec<u8> {
    let (mut file, other) = (file.to_vec(), format!("{}?", &key[..key.len() - 1]));
    let at = file.windows(key.len()).position(|bytes| bytes == key.as_bytes()).unwrap();
    file[at..at + key.len()].copy_from_slice(other.as_bytes());
    seal(&mut file);
    file
}

/// Writes lists as version 1 had them: no halves, and the factors of directions behind their codes.
pub(crate) fn write_first_version(from: &Path, to: &Path) {
    let file = layout::FORMAT.open(from).unwrap();
    let quantizers = super::quantizers_of(from).unwrap();
    let numbers = layout::number_type(&file).unwrap();
    let [now, then] =
        [layout::VERSION_BESIDE, layout::VERSION].map(|version| Columns::new(&quantizers, numbers, version));
    let mut head: Vec<(String, String)> =
        file.schema().metadata().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    head.retain(|(key, _)| key != layout::VERSION_KEY);
    head.push((layout::VERSION_KEY.to_owned(), layout::VERSION.to_owned()));
    let mut notes = layout::notes(&quantizers);
    notes.extend(layout::norm(&file).unwrap().map(layout::norm_note));
    let schema = file.schema().clone();
    let mut columns = vec![Vec::new(); now.widths().len()];
    file.each_batch(now.panels_of_batch(), &mut |batch| {
        let batch = batch.decoded(&schema)?;
        for (to, (column, width)) in columns.iter_mut().zip(batch.columns().iter().zip(now.widths())) {
            let data = column.to_data();
            let bytes = data.buffers()[0].as_slice();
            to.extend(bytes[..width * batch.num_rows()].chunks_exact(width).map(<[u8]>::to_vec));
        }
        Some(())
    })
    .unwrap();
    if quantizers.coding() == Coding::Rabitq {
        let (held, beside) = columns[3..].split_first_mut().unwrap();
        held.iter_mut()
            .enumerate()
            .for_each(|(row, held)| beside.iter().for_each(|column| held.extend(&column[row])));
    }
    let schema = then.schema(Metadata::from_iter(head));
    let mut writer = PackedWriter::create(to, to, &schema).unwrap();
    let panels = columns[0].len();
    for first in (0..panels).step_by(then.panels_of_batch()) {
        let rows = first..panels.min(first + then.panels_of_batch());
        let arrays = columns.iter().zip(schema.fields()).map(|(column, field)| -> ArrayRef {
            let bytes = Buffer::from_vec(column[rows.clone()].concat());
            match field.data_type() {
                DataType::UInt32 => Arc::new(arrow_array::UInt32Array::new(bytes.into(), None)),
                DataType::FixedSizeBinary(width) => {
                    Arc::new(FixedSizeBinaryArray::try_new(*width, bytes, None).unwrap())
                }
                other => panic!("{other}"),
            }
        });
        writer.write(arrays.collect()).unwrap();
    }
    writer.finish(notes).unwrap();
}

/// The column of the counts of a file of one batch.
fn counts(path: &Path) -> Vec<u8> {
    let file = layout::FORMAT.open(path).unwrap();
    let quantizers = layout::quantizers(&file, DIMENSIONS).unwrap();
    let version = Columns::version(quantizers.coding());
    let columns = Columns::new(&quantizers, layout::number_type(&file).unwrap(), version);
    let mut counts = Vec::new();
    let of_batch = &mut |batch: PackedBatch<'_>| {
        counts.extend_from_slice(batch.columns_of(&columns.widths())?[1]);
        Some(())
    };
    file.each_batch(columns.panels_of_batch(), of_batch).unwrap();
    counts
}

fn lists_file(folder: &Path, coding: Coding) -> PathBuf {
    folder.join(format!("{}.lists.arrow", coding.name()))
}

#[test]
fn maps_copies_and_files_of_the_first_version_say_the_same() {
    for (distance, removed) in [("l2", vec![7, 8000]), ("ip", vec![]), ("cosine", vec![0])] {
        let folder = tempfile::tempdir().unwrap();
        // Objects that are removed later are in the lists.
        let (all, space) = (space(distance, vec![]), space(distance, removed.clone()));
        for coding in CODINGS {
            let path = lists_file(folder.path(), coding);
            write_lists(&all, coding, &path);
            let lists = Lists::open(&path, &space).unwrap();
            let first = found_in_all(&lists).unwrap();
            assert!(first.iter().flatten().all(|(id, _)| !removed.contains(id)), "{coding:?} {distance}");
            let read = Lists::open_by(&path, &space, Access::Read).unwrap();
            assert_eq!(found_in_all(&read).unwrap(), first, "{coding:?} {distance}");
            if matches!(coding, Coding::Rows | Coding::Rabitq) {
                let old = folder.path().join("old.lists.arrow");
                write_first_version(&path, &old);
                let old = Lists::open(&old, &space).unwrap();
                assert_eq!(found_in_all(&old).unwrap(), first, "{coding:?} {distance}");
                assert!(old.memory_bytes() > lists.memory_bytes(), "it keeps what no scan reads in place");
            }
        }
    }
}

#[test]
fn lists_in_maps_take_as_much_memory_as_before_they_are_searched() {
    let folder = tempfile::tempdir().unwrap();
    for removed in [vec![], vec![7, 8000]] {
        let space = space("l2", vec![]);
        let after = self::space("l2", removed.clone());
        for coding in CODINGS {
            let path = lists_file(folder.path(), coding);
            write_lists(&space, coding, &path);
            let lists = Lists::open(&path, &after).unwrap();
            let opened = lists.memory_bytes();
            found_in_all(&lists).unwrap();
            // A bit for each vector of the batches with removed ones, whose panels are not all full.
            let bits = if removed.is_empty() { 0 } else { (COUNT / PANEL + LISTS as usize) * 4 };
            assert!(
                lists.memory_bytes() <= opened + bits,
                "{coding:?}: {} of {opened}",
                lists.memory_bytes()
            );
            let read = Lists::open_by(&path, &after, Access::Read).unwrap();
            found_in_all(&read).unwrap();
            let in_file = fs::metadata(&path).unwrap().len() as usize;
            assert!(read.memory_bytes() > in_file / 2, "{coding:?}: {} of {in_file}", read.memory_bytes());
        }
    }
}

#[test]
fn each_batch_is_checked_when_a_list_of_it_is_first_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let (space, path) = (space("l2", vec![7, 8000]), lists_file(folder.path(), Coding::Rows));
    write_lists(&space, Coding::Rows, &path);
    let lists = Lists::open(&path, &space).unwrap();
    let every: Vec<u32> = (0..LISTS).collect();
    assert!(!lists.has(&every));
    let sound = found_in_all(&lists).unwrap();
    assert!(lists.has(&every) && sound.iter().flatten().all(|(id, _)| ![7, 8000].contains(id)));

    // A file of an earlier program notes no length: all of it is read.
    let whole = fs::read(&path).unwrap();
    fs::write(&path, without_note(&whole, "boxwork.lists.norm")).unwrap();
    let lists = Lists::open(&path, &space).unwrap();
    assert!(lists.has(&every));
    assert_eq!(found_in_all(&lists).unwrap(), sound);

    // Damage is met by those queries alone that look into it.
    for access in [Access::Map, Access::Read] {
        let mut damaged = whole.clone();
        let late = damaged.len() / 10 * 8;
        damaged[late] ^= 16;
        fs::write(&path, damaged).unwrap();
        let lists = Lists::open_by(&path, &space, access).unwrap();
        let (mut served, mut refused) = (0, 0);
        for (list, sound) in every.iter().zip(&sound) {
            match found(&lists, *list, 3) {
                Ok(found) => {
                    assert_eq!(found, *sound);
                    served += 1;
                }
                Err(error) => {
                    let said = error.to_string();
                    assert!(
                        said.contains("is damaged in block") && said.contains("boxwork lists "),
                        "{said}"
                    );
                    refused += 1;
                }
            }
        }
        assert!(served > 2 && refused > 2, "{served} lists are served, {refused} are not");
    }
}

#[test]
fn damage_of_codes_is_noticed_however_old_the_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let space = space("l2", vec![]);
    for coding in [Coding::Product, Coding::Fast, Coding::Rabitq] {
        let path = lists_file(folder.path(), coding);
        write_lists(&space, coding, &path);
        let whole = fs::read(&path).unwrap();
        let middle = whole.len() / 3;
        let damage = |mut file: Vec<u8>, at: usize| {
            file[at] ^= 1;
            fs::write(&path, file).unwrap();
            Lists::open(&path, &space)
        };
        let lists = damage(whole.clone(), middle).unwrap();
        let said = found_in_all(&lists).unwrap_err().to_string();
        assert!(said.contains("is damaged in block 1 of 1: the checksum differs"), "{said}");
        // The lists and the counts, which are read before all else, are noted apart: here the count of a panel that is not full.
        fs::write(&path, &whole).unwrap();
        let counts = counts(&path);
        let column = whole.windows(counts.len()).position(|bytes| bytes == counts).unwrap();
        let panel = counts.chunks(4).rposition(|count| (2..31).contains(&count[0])).unwrap();
        let said = damage(whole.clone(), column + panel * 4).unwrap_err().to_string();
        assert!(said.contains("is damaged in its lists"), "{said}");
        let old = without_note(&whole, "boxwork.lists.places");
        let said = damage(old, middle).unwrap_err().to_string();
        assert!(said.contains("is damaged in block 1 of 1: the checksum differs"), "{said}");
    }
}

#[test]
fn a_file_that_is_cut_short_while_it_is_open_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let space = space("l2", vec![]);
    for access in [Access::Map, Access::Read] {
        for coding in CODINGS {
            let path = lists_file(folder.path(), coding);
            write_lists(&space, coding, &path);
            let lists = Lists::open_by(&path, &space, access).unwrap();
            let sound = found(&lists, 0, 3).unwrap();
            assert!(!sound.is_empty());
            fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
            // Lists that were checked before, and those that were not.
            for list in 0..LISTS {
                let said = found(&lists, list, 3).unwrap_err().to_string();
                assert!(said.contains("it was cut short or overwritten while it was open"), "{said}");
            }
        }
    }
}

/// A forger, and a file that is overwritten after its check, put any numbers behind sound checksums.
#[test]
fn damage_behind_sound_checksums_is_refused_or_scanned_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let (space, mut random) = (space_of(2000, "l2", vec![7]), Random::new(5));
    for coding in CODINGS {
        let (path, old) = (lists_file(folder.path(), coding), folder.path().join("old.lists.arrow"));
        write_lists(&space, coding, &path);
        let mut files = vec![fs::read(&path).unwrap()];
        if matches!(coding, Coding::Rows | Coding::Rabitq) {
            write_first_version(&path, &old);
            files.push(fs::read(&old).unwrap());
        }
        let (mut scanned, mut refused) = (0, 0);
        for whole in files {
            let mut sound = whole.clone();
            seal_all(&mut sound);
            assert!(sound == whole, "nothing to put right");
            // The footer begins here.
            let end = whole.len()
                - 10
                - u32::from_le_bytes(*whole[whole.len() - 10..].first_chunk().unwrap()) as usize;
            for trial in 0..60 {
                let mut file = whole.clone();
                for _ in 0..=trial % 4 {
                    // Half of the damage is near the start, where lists, counts and ids are.
                    let at = random.idx(if trial % 2 == 0 { end } else { 24_000.min(end) });
                    file[at] = random.idx(256) as u8;
                }
                seal_all(&mut file);
                fs::write(&path, &file).unwrap();
                match Lists::open(&path, &space).and_then(|lists| found_in_all(&lists)) {
                    Ok(_) => scanned += 1,
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(scanned > 5 && refused > 5, "{coding:?}: {scanned} are scanned, {refused} refused");
    }
}
