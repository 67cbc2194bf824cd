//! Writes the seeds: `fuzz/corpus/TARGET/...`, small sound inputs that a fuzzer then changes.

use std::error::Error;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use boxwork::shipped;
use boxwork_fuzz::store;
use boxwork_kernels::extract::{ExtractParameters, FeatureTransform, GroundDistance, PointDistribution};
use boxwork_operators::extract::parameters_json;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for shipped in shipped::ALL {
        let name = shipped.path.replace('/', "_");
        put(root, "pipeline", &name, shipped.text.as_bytes())?;
    }
    for folder in ["bad", "good"] {
        for entry in fs::read_dir(root.join("../tests/cases/pipelines").join(folder))? {
            let path = entry?.path();
            let name = format!("{folder}_{}", path.file_name().unwrap_or_default().display());
            put(root, "pipeline", &name, &fs::read(&path)?)?;
        }
    }

    for objects in [1, 3] {
        put(root, "signature_store", &format!("objects-{objects}"), &store::bytes(objects))?;
    }

    let lines = [
        "{\"name\":\"a\",\"centroids\":[[1,2]],\"weights\":[5]}\n",
        "{\"weights\":[1e-3,3.25],\"centroids\":[[1,2],[-3e7,4]],\"name\":\"b\",\"width\":7,\"height\":9}\n",
        "{\"name\":\"c\",\"coordinates\":[\"x\",\"y\"],\"centroids\":[[0.1,0.2]],\"weights\":[1]}\n",
    ];
    put(root, "json_lines", "one", lines[0].as_bytes())?;
    put(root, "json_lines", "two", lines[..2].concat().as_bytes())?;
    put(root, "json_lines", "named", [lines[2], "\n", lines[0]].concat().as_bytes())?;

    let uniform = ExtractParameters {
        points_count: 200,
        distribution: PointDistribution::Uniform,
        transform: FeatureTransform::BEST,
        distance: GroundDistance::LInf,
        iterations_count: 3,
        ..ExtractParameters::default()
    };
    let few = ExtractParameters { points_count: 40, seeds_count: 10, iterations_count: 5, ..uniform.clone() };
    for (name, parameters) in
        [("default", &ExtractParameters::default()), ("uniform", &uniform), ("few", &few)]
    {
        put(root, "parameters", name, parameters_json(parameters).as_bytes())?;
    }
    images(root)
}

fn images(root: &Path) -> Result<(), Box<dyn Error>> {
    let rgb = RgbImage::from_fn(9, 7, |x, y| Rgb([(x * 25) as u8, (y * 33) as u8, (x ^ y) as u8]));
    let rgba = RgbaImage::from_fn(5, 4, |x, y| Rgba([(x * 40) as u8, 9, (y * 50) as u8, (x * y * 12) as u8]));
    let (rgb, rgba) = (DynamicImage::from(rgb), DynamicImage::from(rgba));
    let grey = DynamicImage::from(rgb.to_luma8());
    let deep = DynamicImage::from(rgb.to_rgb16());
    use ImageFormat::{Bmp, Gif, Jpeg, Png, Tiff, WebP};
    let images = [
        ("rgb", &rgb, &[Bmp, Gif, Jpeg, Png, Tiff, WebP][..]),
        ("rgba", &rgba, &[Bmp, Gif, Png, Tiff, WebP][..]),
        ("grey", &grey, &[Bmp, Jpeg, Png, Tiff, WebP][..]),
        ("deep", &deep, &[Png, Tiff][..]),
    ];
    for (name, image, formats) in images {
        for format in formats {
            let mut content = Cursor::new(Vec::new());
            image.write_to(&mut content, *format)?;
            let ending = format.extensions_str().first().copied().unwrap_or_default();
            put(root, "image", &format!("{name}.{ending}"), content.get_ref())?;
        }
    }
    Ok(())
}

fn put(root: &Path, target: &str, name: &str, content: &[u8]) -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = root.join("corpus").join(target);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(name), content)?)
}
