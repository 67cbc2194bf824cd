//! The value of `device:`.

use std::fmt;
use std::str::FromStr;

/// The devices on which a box computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// On GPUs if there are any and the work is worth the transfer, otherwise on the slots.
    Auto,
    /// On the slots.
    Cpu,
    /// On these devices, by number; an empty list means all GPUs, or all OpenCL devices if none is a GPU.
    Gpu(Vec<usize>),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is not auto, cpu, gpu, or gpu: and device numbers, as in gpu:0,1");
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "gpu" => Ok(Self::Gpu(Vec::new())),
            _ => {
                let numbers = text.strip_prefix("gpu:").ok_or_else(refused)?.split(',');
                let numbers = numbers.map(|number| number.trim().parse().map_err(|_| refused()));
                Ok(Self::Gpu(numbers.collect::<Result<_, _>>()?))
            }
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(numbers) if numbers.is_empty() => f.write_str("gpu"),
            Self::Gpu(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                write!(f, "gpu:{}", numbers.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_back_and_others_refused() {
        for text in ["auto", "cpu", "gpu", "gpu:0", "gpu:2,0"] {
            assert_eq!(text.parse::<DeviceChoice>().unwrap().to_string(), text);
        }
        assert_eq!("gpu:1, 3".parse(), Ok(DeviceChoice::Gpu(vec![1, 3])));
        for text in ["", "GPU", "gpu:", "gpu:x", "gpu:-1", "cuda"] {
            let refused = text.parse::<DeviceChoice>().unwrap_err();
            assert!(refused.contains("gpu:0,1"), "{refused}");
        }
    }
}
