//! The random numbers of a picture: integers and exact scaling only, so that they are equal on every machine.

use boxwork_kernels::chance;
pub use boxwork_kernels::chance::mix;

/// A stream of random numbers; every picture has its own, so no picture depends on how many others are made.
pub struct Random(chance::Random);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// The stream of one picture of one class.
    pub fn of_image(seed: u64, class_idx: usize, image_idx: usize) -> Self {
        // Each part is mixed before the next is added: neighbouring seeds, classes and images share no stream.
        let class = mix(mix(seed ^ GOLDEN).wrapping_add(class_idx as u64));
        Self(chance::Random::new(mix(class.wrapping_add(image_idx as u64))))
    }

    /// Uniform in 0..1.
    pub fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// Uniform between the two bounds.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Bell-shaped in -1..1: the mean of three uniform draws.
    pub fn bell(&mut self) -> f64 {
        (self.unit() + self.unit() + self.unit()) * (2.0 / 3.0) - 1.0
    }

    /// Uniform in 0..count; count is far below 2^32.
    pub fn below(&mut self, count: usize) -> usize {
        (((self.0.bits() >> 32) * count as u64) >> 32) as usize
    }

    /// Uniform in low..=high.
    pub fn count(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// One of the choices; earlier ones are more likely: 46, 26, 16, 9 and 4 per cent for five.
    pub fn favour<T: Copy>(&mut self, choices: &[T]) -> T {
        let last = self.below(choices.len());
        choices[self.below(last + 1)]
    }

    /// One of the choices, with equal probability.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}
