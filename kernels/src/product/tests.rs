//! Codes and scans against the plain formulas.

use super::*;
use crate::distance::squared_l2;
use crate::panels::Shortlist;
use crate::pieces::one_by_one;

fn rows_of(random: &mut Random, count: usize, levels: u64) -> Vec<f32> {
    (0..count).map(|_| if levels == 0 { random.normal_f32() } else { random.below(levels) as f32 }).collect()
}

fn trained(rows: &[f32], dimensions: usize, parts: usize, bits: Bits) -> Codebook {
    Codebook::train(rows, dimensions, parts, bits, 1, CodePath::detect(), &mut one_by_one()).unwrap().unwrap()
}

/// The k least sums by plain loops: the sum of a row's numbers in order, and the row.
fn plain(codebook: &Codebook, tables: &[f32], base: f32, codes: &[u8], k: usize) -> Vec<(f32, u32)> {
    let count = codebook.bits().centroids();
    let mut sums: Vec<(f32, u32)> = Vec::new();
    for (row, code) in codes.chunks_exact(codebook.parts()).enumerate() {
        let mut sum = base;
        for (table, centroid) in tables.chunks_exact(count).zip(code) {
            sum += table[usize::from(*centroid)];
        }
        sums.push((sum, row as u32));
    }
    sums.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    sums.truncate(k);
    sums
}

#[test]
fn scans_find_the_least_sums_on_every_path() {
    let mut random = Random::mixed(3);
    for (dimensions, parts) in [(1, 1), (3, 2), (16, 5), (33, 4), (127, 16), (128, 16), (129, 32), (960, 64)]
    {
        for bits in [Bits::Four, Bits::Eight] {
            for levels in [0, 2, 200] {
                let sample = rows_of(&mut random, 300 * dimensions, levels);
                let codebook = trained(&sample, dimensions, parts, bits);
                for count in [0, 1, 31, 32, 33, 65, 3000] {
                    let rows = rows_of(&mut random, count * dimensions, levels);
                    let query = rows_of(&mut random, dimensions, levels);
                    let codes = codebook.encoder().encode(CodePath::detect(), &rows);
                    let bytes = pack(&codes, parts, bits);
                    let packed = Codes { parts, bits, rows: count, bytes: &bytes };
                    assert_eq!(unpack(packed), codes);
                    let mut tables = vec![0.0; codebook.tables_len()];
                    codebook.tables(CodePath::Portable, &query, &mut tables);
                    for path in CodePath::available() {
                        for k in [1, 10, 100] {
                            for base in [0.0, 17.5, -3.0] {
                                let mut list = Shortlist::new(k, 0.0);
                                scan(path, packed, &tables, base, None, &mut list, 0);
                                let expected = plain(&codebook, &tables, base, &codes, k);
                                let (mut of_parts, mut scanner) =
                                    (Shortlist::new(k, 0.0), Scanner::new(path));
                                for first in (0..count).step_by(64) {
                                    let part = packed.part(first..count.min(first + 64));
                                    scanner.scan(part, &tables, base, None, &mut of_parts, first as u32);
                                }
                                assert_eq!(of_parts.by_score(), expected, "{path} {bits:?} in parts");
                                assert_eq!(
                                    list.by_score(),
                                    expected,
                                    "{path} {bits:?} {parts} parts, {count} rows"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn codes_are_those_of_the_plain_loops_and_tables_have_the_same_bits_on_every_path() {
    let mut random = Random::mixed(4);
    for (dimensions, parts) in [(1, 1), (3, 3), (7, 2), (40, 8), (127, 16), (128, 16), (129, 16), (960, 120)]
    {
        for bits in [Bits::Four, Bits::Eight] {
            let rows = rows_of(&mut random, 400 * dimensions, if dimensions == 7 { 5 } else { 0 });
            let codebook = trained(&rows, dimensions, parts, bits);
            let again = Codebook::of_numbers(dimensions, parts, bits, codebook.numbers().to_vec());
            assert_eq!(again.as_ref(), Some(&codebook));
            let expected: Vec<u8> =
                rows.chunks_exact(dimensions).flat_map(|row| reference::encode(&codebook, row)).collect();
            let (query, centroid) = (&rows[..dimensions], &rows[dimensions..2 * dimensions]);
            let length = codebook.tables_len();
            let mut portable = [vec![0.0; length], vec![0.0; length], vec![0.0; length]];
            for path in CodePath::available() {
                assert_eq!(codebook.encoder().encode(path, &rows), expected, "{path}");
                let mut found = [vec![0.0; length], vec![0.0; length], vec![0.0; length]];
                codebook.tables(path, query, &mut found[0]);
                codebook.products(path, query, &mut found[1]);
                codebook.terms(path, centroid, &mut found[2]);
                if path == CodePath::Portable {
                    portable = found.clone();
                }
                assert_eq!(found, portable, "{path}");
            }
            let count = bits.centroids();
            let base = squared_l2(query, centroid);
            for code in expected.chunks_exact(parts).take(50) {
                let at = |tables: &[f32]| -> f64 {
                    tables
                        .chunks_exact(count)
                        .zip(code)
                        .map(|(table, c)| f64::from(table[usize::from(*c)]))
                        .sum()
                };
                let flat = reference::distance(&codebook, query, &vec![0.0; dimensions], code);
                assert!((at(&portable[0]) - flat).abs() <= 1e-5 * (1.0 + flat), "{flat}");
                let residual = reference::distance(&codebook, query, centroid, code);
                let sum = base + at(&portable[1]) + at(&portable[2]);
                assert!((sum - residual).abs() <= 1e-4 * (1.0 + residual + base), "{sum} {residual}");
            }
        }
    }
}

#[test]
fn a_code_is_nearer_than_any_other_and_few_rows_are_kept_whole() {
    let mut random = Random::mixed(5);
    // With no more rows than centroids, each row is its own centroid.
    let rows = rows_of(&mut random, 16 * 6, 0);
    let codebook = trained(&rows, 6, 2, Bits::Four);
    for row in rows.chunks_exact(6) {
        let code = codebook.encoder().encode(CodePath::detect(), row);
        let mut decoded = vec![0.0; 6];
        codebook.decode(&code, &mut decoded);
        assert_eq!(decoded, row);
    }
    let one = trained(&rows[..6], 6, 3, Bits::Eight);
    assert_eq!(one.encoder().encode(CodePath::detect(), &rows[..6]), [0, 0, 0]);
    assert_eq!(Codebook::of_numbers(6, 7, Bits::Four, vec![0.0; 112]), None);
    assert_eq!(Codebook::of_numbers(6, 2, Bits::Four, vec![0.0; 95]), None);
    assert_eq!(Codebook::of_numbers(6, 2, Bits::Four, vec![f32::NAN; 96]), None);
}

#[test]
fn lists_of_a_query_share_a_shortlist() {
    let mut random = Random::mixed(6);
    let rows = rows_of(&mut random, 1000 * 8, 0);
    let codebook = trained(&rows, 8, 4, Bits::Four);
    let codes = codebook.encoder().encode(CodePath::detect(), &rows);
    let mut tables = vec![0.0; codebook.tables_len()];
    codebook.tables(CodePath::detect(), &rows[..8], &mut tables);
    let expected = plain(&codebook, &tables, 0.0, &codes, 25);
    for path in CodePath::available() {
        let mut list = Shortlist::new(25, 0.0);
        for (piece, codes) in codes.chunks(300 * 4).enumerate() {
            let bytes = pack(codes, 4, Bits::Four);
            let codes = Codes { parts: 4, bits: Bits::Four, rows: codes.len() / 4, bytes: &bytes };
            scan(path, codes, &tables, 0.0, None, &mut list, 300 * piece as u32);
        }
        assert_eq!(list.by_score(), expected, "{path}");
    }
}

#[test]
fn a_mask_leaves_out_rows_before_they_count() {
    let mut random = Random::mixed(7);
    let rows = rows_of(&mut random, 3000 * 8, 0);
    for bits in [Bits::Four, Bits::Eight] {
        let codebook = trained(&rows, 8, 4, bits);
        let codes = codebook.encoder().encode(CodePath::detect(), &rows);
        let bytes = pack(&codes, 4, bits);
        let packed = Codes { parts: 4, bits, rows: 3000, bytes: &bytes };
        let mut tables = vec![0.0; codebook.tables_len()];
        codebook.tables(CodePath::detect(), &rows[..8], &mut tables);
        let all = plain(&codebook, &tables, 0.0, &codes, 3000);
        for pass in [0, 1, 50, 1000] {
            let mask: Vec<u32> = (0..3000usize.div_ceil(GROUP))
                .map(|_| (0..32).fold(0, |word, bit| word | u32::from(random.below(1000) < pass) << bit))
                .collect();
            let passes = |row: u32| mask[row as usize / GROUP] >> (row as usize % GROUP) & 1 != 0;
            let expected: Vec<_> = all.iter().copied().filter(|(_, row)| passes(*row)).take(25).collect();
            for path in CodePath::available() {
                let mut list = Shortlist::new(25, 0.0);
                scan(path, packed, &tables, 0.0, Some(&mask), &mut list, 0);
                assert_eq!(list.by_score(), expected, "{path}, {pass} of 1000");
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn each_set_of_instructions_finds_the_same_rows() {
    use super::x86;

    type Within = fn(&[u8], &[u8], &[[u16; GROUP]], &mut Vec<(u32, u32)>);
    let all: [(&str, bool, Within); 3] = [
        ("AVX2", CodePath::Avx2.is_available(), x86::within_4_avx2),
        ("AVX-512 BW", CodePath::Avx512.is_available() && x86::has_wide_shuffles(), x86::within_4_avx512),
        ("AVX-512 VNNI", CodePath::Avx512.is_available() && x86::has_dot_tables(), x86::within_4_dot),
    ];
    let mut random = Random::new(19);
    for (parts, groups) in [(4, 1), (8, 3), (32, 50), (64, 5)] {
        let mut some = |count: usize| -> Vec<u8> { (0..count).map(|_| random.below(256) as u8).collect() };
        let (tables, bytes) = (some(parts * 16), some(groups * parts * GROUP / 2));
        let codes = Codes { parts, bits: Bits::Four, rows: groups * GROUP, bytes: &bytes };
        let mean = parts as u64 * 128;
        let limit = |random: &mut Random| (mean * random.below(3) / 2 + random.below(mean)) as u16;
        let each: Vec<[u16; GROUP]> =
            (0..groups).map(|_| std::array::from_fn(|_| limit(&mut random))).collect();
        for limits in [&each[..], &[[mean as u16; GROUP]], &[[0; GROUP]], &[[u16::MAX; GROUP]]] {
            let mut wanted = Vec::new();
            scan::within_portable(codes, &tables, &bytes, limits, &mut wanted);
            for (name, _, within) in all.iter().filter(|(_, is_there, _)| *is_there) {
                let mut found = Vec::new();
                within(&tables, &bytes, limits, &mut found);
                assert_eq!(found, wanted, "{name}, {parts} parts, {groups} groups");
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn sums_in_bytes_find_the_same_rows_up_to_the_largest_byte() {
    use super::x86;

    if !CodePath::Avx2.is_available() {
        return;
    }
    let mut random = Random::new(20);
    for (parts, groups) in [(4, 1), (8, 3), (32, 50), (64, 5)] {
        let largest = 2 * 255 / parts as u64 + 1;
        let tables: Vec<u8> = (0..parts * 16).map(|_| random.below(largest) as u8).collect();
        let bytes: Vec<u8> = (0..groups * parts * GROUP / 2).map(|_| random.below(256) as u8).collect();
        let codes = Codes { parts, bits: Bits::Four, rows: groups * GROUP, bytes: &bytes };
        let each: Vec<[u16; GROUP]> =
            (0..groups).map(|_| std::array::from_fn(|_| 150 + random.below(105) as u16)).collect();
        for limits in [&each[..], &[[250; GROUP]], &[[0; GROUP]], &[[254; GROUP]]] {
            let (mut wanted, mut found) = (Vec::new(), Vec::new());
            scan::within_portable(codes, &tables, &bytes, limits, &mut wanted);
            x86::within_4_in_bytes(&tables, &bytes, limits, &mut found);
            assert_eq!(found, wanted, "{parts} parts, {groups} groups");
        }
        for limit in [255, 256, u16::MAX] {
            let mut found = Vec::new();
            x86::within_4_in_bytes(&tables, &bytes, &[[limit; GROUP]], &mut found);
            assert!(found.len() == groups && found.iter().all(|(_, rows)| *rows == u32::MAX), "all rows");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn each_set_of_instructions_finds_the_same_rows_of_8_bits() {
    use super::x86;

    type Within = fn(&[u8], usize, &[u8], &[[u16; GROUP]], &mut Vec<(u32, u32)>);
    let all: [(&str, bool, Within); 2] = [
        ("AVX2", CodePath::Avx2.is_available(), x86::within_8_avx2),
        ("AVX-512 VBMI", CodePath::Avx512.is_available() && x86::has_wide_tables(), x86::within_8_avx512),
    ];
    let mut random = Random::new(29);
    for (parts, groups) in [(1, 1), (4, 2), (16, 51), (64, 3)] {
        let mut some = |count: usize| -> Vec<u8> { (0..count).map(|_| random.below(256) as u8).collect() };
        let (tables, bytes) = (some(parts * 256), some(groups * parts * GROUP));
        let codes = Codes { parts, bits: Bits::Eight, rows: groups * GROUP, bytes: &bytes };
        let mean = parts as u64 * 128;
        let limit = |random: &mut Random| (mean * random.below(3) / 2 + random.below(mean)) as u16;
        let each: Vec<[u16; GROUP]> =
            (0..groups).map(|_| std::array::from_fn(|_| limit(&mut random))).collect();
        for limits in [&each[..], &[[mean as u16; GROUP]], &[[0; GROUP]], &[[u16::MAX; GROUP]]] {
            let mut wanted = Vec::new();
            scan::within_portable(codes, &tables, &bytes, limits, &mut wanted);
            for (name, _, within) in all.iter().filter(|(_, is_there, _)| *is_there) {
                let mut found = Vec::new();
                within(&tables, parts, &bytes, limits, &mut found);
                assert_eq!(found, wanted, "{name}, {parts} parts, {groups} groups");
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn sums_of_a_group_have_the_same_bits_on_every_path() {
    use super::x86;

    type Sums = fn(&[f32], &[u8], &mut [f32; GROUP]);
    let all: [(CodePath, Sums); 2] =
        [(CodePath::Avx2, x86::sum_4_avx2), (CodePath::Avx512, x86::sum_4_avx512)];
    let mut random = Random::new(23);
    for parts in [1, 3, 4, 31, 64] {
        let tables = rows_of(&mut random, parts * 16, 0);
        let bytes: Vec<u8> = (0..group_bytes(parts, Bits::Four)).map(|_| random.below(256) as u8).collect();
        let codes = Codes { parts, bits: Bits::Four, rows: GROUP, bytes: &bytes };
        let start: [f32; GROUP] = std::array::from_fn(|_| random.normal_f32());
        let mut wanted = start;
        scan::sum_group_portable(codes, &tables, 0, &mut wanted);
        for (path, sums) in all.iter().filter(|(path, _)| path.is_available()) {
            let mut found = start;
            sums(&tables, &bytes, &mut found);
            assert_eq!(found.map(f32::to_bits), wanted.map(f32::to_bits), "{path}, {parts} parts");
        }
    }
}
