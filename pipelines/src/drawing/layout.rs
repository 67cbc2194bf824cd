//! The places of boxes and arrows: layers from left to right, long arrows led between the boxes.
//!
//! The usual four steps: break cycles, assign layers, order each layer by its neighbours' places, then move every
//! box towards its neighbours without changing the order. Deterministic.

use super::{ArrowKind, Drawing};

/// Sweeps of ordering and of moving; after a dozen, pictures of pipelines no longer change.
const SWEEPS: usize = 12;
/// With more points the picture is unreadable anyway, and long arrows are drawn straight.
const POINTS_COUNT_MAX: usize = 4096;

/// The size of a box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The least space between columns, and the space between rows.
pub(super) const COLUMN_GAP: f64 = 84.0;
pub(super) const ROW_GAP: f64 = 26.0;

/// The upper left corners of the boxes, and the points of each arrow.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) corners: Vec<(f64, f64)>,
    pub(super) via: Vec<Vec<(f64, f64)>>,
    /// The left ends and the widths of the columns, and the column of each box.
    pub(super) columns: Vec<(f64, f64)>,
    pub(super) layers: Vec<usize>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A box, or a point where a long arrow crosses a layer.
struct Point {
    layer: usize,
    width: f64,
    height: f64,
    left: Vec<usize>,
    right: Vec<usize>,
}

/// Lays a drawing out, with this much space between columns.
pub(super) fn layout(drawing: &Drawing, sizes: &[Size], column_gap: f64) -> Layout {
    let count = sizes.len();
    // Arrows of envelopes shape the picture; backward arrows and hints are drawn over it.
    let forward = forward(drawing, count);
    let layers = layers(count, drawing, &forward);
    let mut points: Vec<Point> = sizes
        .iter()
        .zip(&layers)
        .map(|(size, layer)| Point {
            layer: *layer,
            width: size.width,
            height: size.height,
            left: Vec::new(),
            right: Vec::new(),
        })
        .collect();
    let mut chains: Vec<Vec<usize>> = vec![Vec::new(); drawing.arrows.len()];
    for (idx, arrow) in drawing.arrows.iter().enumerate().filter(|(idx, _)| forward[*idx]) {
        let mut last = arrow.from;
        if points.len() < POINTS_COUNT_MAX {
            for layer in layers[arrow.from] + 1..layers[arrow.to] {
                points.push(Point { layer, width: 0.0, height: 8.0, left: Vec::new(), right: Vec::new() });
                let point = points.len() - 1;
                link(&mut points, last, point);
                chains[idx].push(point);
                last = point;
            }
        }
        link(&mut points, last, arrow.to);
    }
    let rows = rows(&points);
    let centres = centres(&points, &rows);
    let mut xs = Vec::new();
    let mut x = 0.0;
    for row in &rows {
        let widest = row.iter().map(|point| points[*point].width).fold(0.0, f64::max);
        xs.push((x, widest));
        x += widest + column_gap;
    }
    let corners: Vec<(f64, f64)> = (0..count)
        .map(|idx| {
            let (x, widest) = xs[points[idx].layer];
            (x + (widest - points[idx].width) / 2.0, centres[idx] - points[idx].height / 2.0)
        })
        .collect();
    let via = chains
        .iter()
        .map(|chain| {
            let ends = |point: &usize| {
                let (x, widest) = xs[points[*point].layer];
                [(x, centres[*point]), (x + widest, centres[*point])]
            };
            chain.iter().flat_map(ends).collect()
        })
        .collect();
    let edges = |sign: f64| points.iter().zip(&centres).map(move |(point, y)| y + sign * point.height / 2.0);
    let top = if points.is_empty() { 0.0 } else { edges(-1.0).fold(f64::INFINITY, f64::min) };
    let bottom = edges(1.0).fold(top, f64::max);
    let shift = |(x, y): (f64, f64)| (x, y - top);
    let via: Vec<Vec<(f64, f64)>> = via;
    Layout {
        corners: corners.into_iter().map(shift).collect(),
        via: via.into_iter().map(|points| points.into_iter().map(shift).collect()).collect(),
        columns: xs,
        layers,
        width: (x - column_gap).max(0.0),
        height: bottom - top,
    }
}

fn link(points: &mut [Point], left: usize, right: usize) {
    points[left].right.push(right);
    points[right].left.push(left);
}

/// The arrows that go forward: all arrows of envelopes except those that close a cycle.
fn forward(drawing: &Drawing, count: usize) -> Vec<bool> {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut forward = vec![false; drawing.arrows.len()];
    for (idx, arrow) in drawing.arrows.iter().enumerate() {
        if !matches!(arrow.kind, ArrowKind::Hint(_)) && arrow.from != arrow.to {
            out[arrow.from].push(idx);
            forward[idx] = true;
        }
    }
    // A depth-first walk with an explicit stack: 0 not seen, 1 on the path, 2 done.
    let mut seen = vec![0_u8; count];
    for start in 0..count {
        if seen[start] != 0 {
            continue;
        }
        let mut path = vec![(start, 0)];
        seen[start] = 1;
        while let Some((at, next)) = path.last_mut() {
            match out[*at].get(*next) {
                Some(arrow) => {
                    *next += 1;
                    let to = drawing.arrows[*arrow].to;
                    match seen[to] {
                        0 => {
                            seen[to] = 1;
                            path.push((to, 0));
                        }
                        1 => forward[*arrow] = false,
                        _ => {}
                    }
                }
                None => {
                    seen[*at] = 2;
                    path.pop();
                }
            }
        }
    }
    forward
}

/// The longest way from the left; boxes without inputs then move right, up to their consumers.
fn layers(count: usize, drawing: &Drawing, forward: &[bool]) -> Vec<usize> {
    let mut out: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut waiting = vec![0; count];
    for (_, arrow) in drawing.arrows.iter().enumerate().filter(|(idx, _)| forward[*idx]) {
        out[arrow.from].push(arrow.to);
        waiting[arrow.to] += 1;
    }
    let fed: Vec<bool> = waiting.iter().map(|count| *count > 0).collect();
    let mut ready: Vec<usize> = (0..count).filter(|idx| waiting[*idx] == 0).collect();
    let mut layers = vec![0_usize; count];
    while let Some(at) = ready.pop() {
        for to in &out[at] {
            layers[*to] = layers[*to].max(layers[at] + 1);
            waiting[*to] -= 1;
            if waiting[*to] == 0 {
                ready.push(*to);
            }
        }
    }
    for idx in (0..count).filter(|idx| !fed[*idx]) {
        let nearest = out[idx].iter().map(|to| layers[*to]).min();
        layers[idx] = nearest.map_or(0, |nearest| nearest.saturating_sub(1));
    }
    layers
}

/// The points of each layer in an order with few crossings.
fn rows(points: &[Point]) -> Vec<Vec<usize>> {
    let last = points.iter().map(|point| point.layer).max().map_or(0, |last| last + 1);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); last];
    for (idx, point) in points.iter().enumerate() {
        rows[point.layer].push(idx);
    }
    let mut place = vec![0.0; points.len()];
    number(&rows, &mut place);
    let (mut best, mut best_crossings) = (rows.clone(), crossings(&rows, points, &place));
    for sweep in 0..SWEEPS {
        let to_right = sweep % 2 == 0;
        let order: Vec<usize> = if to_right { (0..last).collect() } else { (0..last).rev().collect() };
        for layer in order {
            let mut keyed: Vec<(f64, usize)> = rows[layer]
                .iter()
                .map(|idx| {
                    let neighbours = if to_right { &points[*idx].left } else { &points[*idx].right };
                    (mean(neighbours, &place).unwrap_or(place[*idx]), *idx)
                })
                .collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[layer] = keyed.into_iter().map(|(_, idx)| idx).collect();
            number(&rows[layer..=layer], &mut place);
        }
        let crossings = crossings(&rows, points, &place);
        if crossings < best_crossings {
            (best, best_crossings) = (rows.clone(), crossings);
        }
    }
    best
}

fn number(rows: &[Vec<usize>], place: &mut [f64]) {
    for row in rows {
        for (at, idx) in row.iter().enumerate() {
            place[*idx] = at as f64;
        }
    }
}

fn mean(of: &[usize], place: &[f64]) -> Option<f64> {
    (!of.is_empty()).then(|| of.iter().map(|idx| place[*idx]).sum::<f64>() / of.len() as f64)
}

fn crossings(rows: &[Vec<usize>], points: &[Point], place: &[f64]) -> usize {
    let mut crossings = 0;
    for row in rows {
        let links: Vec<(f64, f64)> = row
            .iter()
            .flat_map(|idx| points[*idx].right.iter().map(|to| (place[*idx], place[*to])))
            .collect();
        if links.len() > 500 {
            return usize::MAX;
        }
        for (at, a) in links.iter().enumerate() {
            crossings += links[at + 1..].iter().filter(|b| (a.0 - b.0) * (a.1 - b.1) < 0.0).count();
        }
    }
    crossings
}

/// The middle heights: stacked first, then drawn towards the neighbours.
fn centres(points: &[Point], rows: &[Vec<usize>]) -> Vec<f64> {
    let mut centres = vec![0.0; points.len()];
    for row in rows {
        let whole: f64 = row.iter().map(|idx| points[*idx].height + ROW_GAP).sum();
        let mut y = -whole / 2.0;
        for idx in row {
            centres[*idx] = y + points[*idx].height / 2.0;
            y += points[*idx].height + ROW_GAP;
        }
    }
    for sweep in 0..SWEEPS {
        let to_right = sweep % 2 == 0;
        let order: Vec<usize> =
            if to_right { (0..rows.len()).collect() } else { (0..rows.len()).rev().collect() };
        for layer in order {
            let row = &rows[layer];
            let wanted: Vec<f64> = row
                .iter()
                .map(|idx| {
                    let point = &points[*idx];
                    let neighbours = if to_right { &point.left } else { &point.right };
                    mean(neighbours, &centres).unwrap_or(centres[*idx])
                })
                .collect();
            // Down as far as the order forces, and up likewise; the mean of both keeps distances too.
            let gap = |a: usize, b: usize| (points[a].height + points[b].height) / 2.0 + ROW_GAP;
            let (mut down, mut up) = (wanted.clone(), wanted);
            for at in 1..row.len() {
                down[at] = down[at].max(down[at - 1] + gap(row[at - 1], row[at]));
            }
            for at in (1..row.len()).rev() {
                up[at - 1] = up[at - 1].min(up[at] - gap(row[at - 1], row[at]));
            }
            for (at, idx) in row.iter().enumerate() {
                centres[*idx] = f64::midpoint(down[at], up[at]);
            }
        }
    }
    centres
}
