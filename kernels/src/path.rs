//! The vector instructions that a kernel uses.

use std::fmt;

/// A family of vector instructions.
///
/// Extracted signatures have the same bits on every path. Fast distances agree within their declared error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CodePath {
    /// Plain Rust, which the compiler vectorises for the oldest processor of its target.
    Portable,
    /// Eight lanes: AVX2, FMA and F16C.
    Avx2,
    /// AVX2 with products of bytes in vectors of the same length (AVX-VNNI); other numbers take the loops of AVX2.
    AvxVnni,
    /// Sixteen lanes: AVX-512 F and DQ.
    Avx512,
}

impl CodePath {
    /// The fastest path of this machine.
    pub fn detect() -> Self {
        // Called for every exact distance, so it allocates nothing.
        [Self::Avx512, Self::AvxVnni, Self::Avx2]
            .into_iter()
            .find(|path| path.is_available())
            .unwrap_or(Self::Portable)
    }

    /// All paths of this machine, the slowest first.
    pub fn available() -> Vec<Self> {
        [Self::Portable, Self::Avx2, Self::AvxVnni, Self::Avx512]
            .into_iter()
            .filter(|path| path.is_available())
            .collect()
    }

    /// Whether this machine has the instructions.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Portable => true,
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            Self::AvxVnni => Self::Avx2.is_available() && is_x86_feature_detected!("avxvnni"),
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        matches!(self, Self::Portable)
    }
}

impl fmt::Display for CodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2",
            Self::AvxVnni => "AVX-VNNI",
            Self::Avx512 => "AVX-512",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detection_picks_an_available_path() {
        assert!(CodePath::Portable.is_available());
        assert_eq!(CodePath::available().last(), Some(&CodePath::detect()));
    }
}
