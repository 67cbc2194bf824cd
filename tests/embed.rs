//! Pictures by learnt features through the command: a model of the test makes vectors of them, and every search finds them; a build
//! without models says which build has them.

#[path = "support/command.rs"]
mod command;
#[cfg(feature = "embed")]
#[path = "../operators/src/images/embed/onnx.rs"]
mod onnx;

use command::{fails, folder, ok};

const RUN: [&str; 6] = ["run", "embed", "--set", "images=pictures", "--set", "model=edges.onnx"];

#[test]
fn the_pipeline_is_sound_in_every_build() {
    let folder = folder();
    let at = folder.path();
    ok(at, &["check", "embed", "--deny-warnings"]);
    std::fs::create_dir(at.join("pictures")).expect("a folder");
    let said = fails(at, &[&RUN[..], &["--set", "out=v.vectors.arrow"]].concat(), 3);
    assert!(said.contains("edges.onnx"), "{said}");
    assert!(cfg!(feature = "embed") || said.contains("--features embed"), "{said}");
    assert!(!at.join("v.vectors.arrow").exists());
}

#[cfg(feature = "embed")]
mod with_models {
    use std::fs;
    use std::path::Path;

    use boxwork_kernels::chance::Random;
    use image::{Rgb, RgbImage};

    use super::RUN;
    use super::command::{fails, folder, json, ok};
    use super::onnx::{KERNELS, edges, edges_of};

    const SIZE: usize = 16;
    const PICTURES: usize = 40;

    /// The pictures of a folder with as many columns as the model takes: noise around a colour, which four pictures share.
    fn pictures(at: &Path) -> Vec<(String, RgbImage)> {
        let mut random = Random::new(11);
        let pictures = (0..PICTURES).map(|idx| {
            let mut of = Random::new(idx as u64 / 4);
            let colour: [usize; 3] = std::array::from_fn(|_| of.idx(190));
            let side = SIZE as u32;
            let picture =
                RgbImage::from_fn(side, side, |_, _| Rgb(colour.map(|level| (level + random.idx(66)) as u8)));
            let name = format!("c{}/{idx}.png", idx / 4);
            let path = at.join("pictures").join(&name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            picture.save(path).expect("a picture");
            (name, picture)
        });
        pictures.collect()
    }

    /// The vector of a picture, with the pipeline's means and deviations, in f64.
    fn expected(picture: &RgbImage) -> Vec<f64> {
        let (mean, deviation) = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]);
        let plane = |channel: usize| {
            let levels = picture.pixels().map(move |pixel| f64::from(pixel.0[channel]) / 255.0);
            levels.map(move |level| (level - mean[channel]) / deviation[channel])
        };
        let mut vector = edges_of(&(0..3).flat_map(plane).collect::<Vec<_>>(), SIZE);
        let length = vector.iter().map(|number| number * number).sum::<f64>().sqrt();
        vector.iter_mut().for_each(|number| *number /= length);
        vector
    }

    fn embed(at: &Path, out: &str, more: &[&str]) {
        let (out, size) = (format!("out={out}"), format!("size={SIZE}"));
        ok(at, &[&RUN[..], &["--set", &out, "--set", &size], more].concat());
    }

    #[test]
    fn pictures_are_found_by_the_features_of_a_model() {
        let folder = folder();
        let at = folder.path();
        let pictures = pictures(at);
        let side = SIZE as u64;
        fs::write(at.join("edges.onnx"), edges(&[0, 3, side, side])).expect("a model");
        embed(at, "a.vectors.arrow", &["--workers", "1"]);
        embed(at, "b.vectors.arrow", &["--workers", "3"]);
        let lines = ok(at, &["export", "a.vectors.arrow", "--out", "-"]);
        assert_eq!(lines, ok(at, &["export", "b.vectors.arrow", "--out", "-"]), "for any number of workers");
        let mut vectors = Vec::new();
        for line in lines.lines() {
            let line = json(line);
            let name = line["name"].as_str().expect("a name").to_owned();
            let found: Vec<f64> =
                line["object"].as_array().expect("numbers").iter().filter_map(|one| one.as_f64()).collect();
            let (_, picture) =
                pictures.iter().find(|(known, _)| *known == name).expect("a picture of this name");
            let wanted = expected(picture);
            assert_eq!((found.len(), wanted.len()), (KERNELS, KERNELS));
            assert!(
                found.iter().zip(&wanted).all(|(found, wanted)| (found - wanted).abs() < 1e-5),
                "{name}: {found:?} {wanted:?}"
            );
            vectors.push((name, found));
        }
        assert_eq!(vectors.len(), PICTURES);

        // The nearest of a picture, by the vectors in f64.
        let (query, of_query) = &vectors[17];
        let distance = |vector: &[f64]| {
            vector.iter().zip(of_query).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt()
        };
        let mut nearest: Vec<(f64, &str)> =
            vectors.iter().map(|(name, vector)| (distance(vector), name.as_str())).collect();
        nearest.sort_by(|one, other| one.0.total_cmp(&other.0));
        let search = ["search", "--store", "a.vectors.arrow", "--query", query, "-k", "5"];
        let found = json(&ok(at, &[&search[..], &["--format", "json"]].concat()));
        for (hit, (distance, name)) in
            found["queries"][0]["results"].as_array().expect("results").iter().zip(&nearest)
        {
            assert_eq!(hit["name"], *name, "{found}");
            assert!((hit["distance"].as_f64().expect("a distance") - distance).abs() < 1e-6);
        }
        // By codes, and with pictures on a page.
        ok(at, &["index", "--store", "a.vectors.arrow", "--codes", "planes", "--out", "a.codes.arrow"]);
        let coded = ok(at, &[&search[..], &["--format", "json", "--codes", "a.codes.arrow"]].concat());
        assert_eq!(json(&coded)["queries"], found["queries"]);
        ok(at, &[&search[..], &["--format", "html", "--out", "found.html"]].concat());
        let page = fs::read_to_string(at.join("found.html")).expect("a page");
        assert!(page.contains("<img") && page.contains(&format!("pictures/{query}")), "{page}");
        assert!(ok(at, &["evaluate", "--store", "a.vectors.arrow"]).contains("MAP"));
    }

    #[test]
    fn faults_name_the_file_and_the_fix_and_leave_no_store() {
        let folder = folder();
        let at = folder.path();
        pictures(at);
        let run = |more: &[&str]| fails(at, &[&RUN[..], &["--set", "out=v.vectors.arrow"], more].concat(), 3);
        assert!(run(&[]).contains("`edges.onnx` cannot be read"));
        fs::write(at.join("edges.onnx"), "no model").expect("a file");
        assert!(run(&[]).contains("no model in ONNX's format"));
        fs::write(at.join("edges.onnx"), edges(&[0, 3, 16, 16])).expect("a model");
        let said = run(&[]);
        assert!(
            said.contains("any x 3 x 16 x 16")
                && said.contains("1 x 3 x 224 x 224")
                && said.contains("`size`"),
            "{said}"
        );
        let said = run(&["--set", "size=16", "--set", "output=map"]);
        assert!(said.contains("one vector") && said.contains("features, map"), "{said}");
        let said = run(&["--set", "size=16", "--set", "mean=[1,2]"]);
        assert!(said.contains("`mean` has 2 numbers"), "{said}");
        let said = run(&["--set", "size=16", "--set", "shorter=8"]);
        assert!(said.contains("`shorter: 8`"), "{said}");
        assert!(!at.join("v.vectors.arrow").exists());
    }
}
