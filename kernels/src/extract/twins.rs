//! The fast extraction against the reference, bit for bit, on every path of this machine.

use proptest::prelude::*;

use super::*;
use crate::CodePath;
use crate::chance::Random;

/// Pixels of one kind: flat, noise, a gradient with few colours, or a gradient with noise on half of it.
fn pixels(width: usize, height: usize, kind: u8, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut noise = move || random.bits() as u8;
    let base = [noise(), noise(), noise()];
    let mut rgb = Vec::with_capacity(3 * width * height);
    for y in 0..height {
        for x in 0..width {
            for (channel, base) in base.iter().enumerate() {
                rgb.push(match kind {
                    0 => *base,
                    1 => noise(),
                    2 => ((x * 5 + y * 3) / 32 * 32) as u8 ^ base,
                    _ if x * 2 < width => (x + y * (channel + 1)) as u8,
                    _ => base.wrapping_add(noise() / 4),
                });
            }
        }
    }
    rgb
}

fn bits(signature: &Signature) -> Vec<Vec<u32>> {
    let columns = signature.centroids.iter().chain([&signature.weights]);
    columns.map(|column| column.iter().map(|value| value.to_bits()).collect()).collect()
}

/// Extracts each image on every path with one extractor, so that scratch space is used again.
fn check(parameters: &ExtractParameters, images: &[(usize, usize, Vec<u8>)]) {
    for path in CodePath::available() {
        let mut extractor = Extractor::with_path(parameters.clone(), path).expect("valid");
        for (width, height, rgb) in images {
            let image = ImageRef::new(*width, *height, rgb).expect("sizes agree");
            let expected = reference::extract(parameters, image).expect("valid");
            let found = extractor.extract(image);
            assert_eq!(bits(&found), bits(&expected), "{path:?}, {width} x {height}, {parameters:?}");
            assert!(found.centroids_count() >= 1);
            assert!(found.centroids.iter().flatten().all(|value| value.is_finite() && value.abs() < 128.0));
            assert!((found.weights.iter().map(|&w| f64::from(w)).sum::<f64>() - 1.0).abs() < 1e-5);
            assert!(found.weights.iter().all(|&weight| weight > 0.0));
        }
    }
}

#[test]
fn every_preset_on_whole_images() {
    let images: Vec<_> = (0..4).map(|kind| (150, 150, pixels(150, 150, kind, 11))).collect();
    Preset::ALL.iter().for_each(|preset| check(&preset.parameters(), &images));
}

/// Bits of stores that exist: they must not change, so that a query image is treated as a store's images were.
#[test]
fn the_practical_preset_gives_the_bits_that_stores_were_made_with() {
    let mut extractor = Extractor::new(Preset::PRACTICAL.parameters()).expect("valid");
    let sums = [0, 1, 2, 3].map(|kind| {
        let rgb = pixels(150, 150, kind, 11);
        let signature = extractor.extract(ImageRef::new(150, 150, &rgb).expect("sizes agree"));
        let all = bits(&signature).into_iter().flatten();
        all.fold(0_u32, |sum, bits| sum.rotate_left(5) ^ bits.wrapping_mul(0x9e37_79b9))
    });
    assert_eq!(sums, [1_172_874_164, 1_431_315_467, 3_841_225_609, 2_476_172_930]);
}

#[test]
fn degenerate_images() {
    let sizes = [(1, 1), (1, 2), (2, 1), (1, 37), (37, 1), (2, 2), (3, 5), (16, 400)];
    let images: Vec<_> =
        sizes.iter().flat_map(|&(w, h)| (0..4).map(move |kind| (w, h, pixels(w, h, kind, 5)))).collect();
    check(&ExtractParameters { points_count: 300, ..ExtractParameters::default() }, &images);
}

/// Small enough for Miri, see docs/checking.md.
#[test]
fn a_few_points_on_small_images() {
    let few = ExtractParameters {
        points_count: 21,
        seeds_count: 5,
        iterations_count: 2,
        cluster_weight_min: 1,
        ..ExtractParameters::default()
    };
    check(&few, &[(5, 4, pixels(5, 4, 3, 7)), (1, 3, pixels(1, 3, 1, 7))]);
}

#[test]
fn a_flat_pixel_gives_one_centroid_of_known_place() {
    let mut extractor = Extractor::new(ExtractParameters::default()).expect("valid");
    let signature = extractor.extract(ImageRef::new(1, 1, &[255; 3]).expect("one pixel"));
    assert_eq!(signature.weights, [1.0]);
    assert_eq!(signature.centroids.map(|column| column[0]), [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn images_are_refused_with_reasons() {
    let message = |width, height, bytes: usize| {
        ImageRef::new(width, height, &vec![0; bytes]).expect_err("not an image").to_string()
    };
    assert!(message(0, 3, 0).contains("0 x 3"));
    assert!(message(5000, 3, 45_000).contains("1 to 4096"));
    assert!(message(2, 2, 11).contains("11 bytes") && message(2, 2, 11).contains("needs 12"));
}

fn parameters() -> impl Strategy<Value = ExtractParameters> {
    let points = (
        1_u32..400,
        prop_oneof![
            Just(PointDistribution::Gaussian { sigma: 0.375 }),
            Just(PointDistribution::Uniform),
            Just(PointDistribution::Grid)
        ],
        any::<u64>(),
    );
    let texture = (prop_oneof![Just(1_u8), Just(7), Just(15), Just(23), Just(31), Just(200)], 0_u32..7);
    let clusters = (1_u32..200, 1_u32..8, 0_u32..6, 0.0_f32..1.5);
    let rest = (
        1_u32..60,
        prop_oneof![Just(GroundDistance::L1), Just(GroundDistance::L2), Just(GroundDistance::LInf)],
        any::<bool>(),
    );
    (points, texture, clusters, rest).prop_map(|(points, texture, clusters, rest)| {
        let mut transform = if rest.2 { Preset::BALANCED.transform() } else { Preset::BEST.transform() };
        if texture.0 > 30 {
            transform.multiplier[5] = 1e-3;
        }
        transform.offset[1] = -3.0;
        ExtractParameters {
            points_count: points.0,
            distribution: points.1,
            seed: points.2,
            grey_max: texture.0,
            window_radius: texture.1,
            transform,
            seeds_count: clusters.0,
            iterations_count: clusters.1,
            cluster_weight_min: clusters.2,
            join_distance: clusters.3,
            centroids_count_max: rest.0,
            distance: rest.1,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn random_images_and_parameters(
        parameters in parameters(),
        sizes in prop::collection::vec((1_usize..70, 1_usize..70, 0_u8..4, any::<u64>()), 1..4),
    ) {
        let images: Vec<_> = sizes.into_iter().map(|(w, h, kind, seed)| (w, h, pixels(w, h, kind, seed))).collect();
        check(&parameters, &images);
    }
}
