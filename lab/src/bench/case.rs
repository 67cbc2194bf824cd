//! One case of a workload: its settings by name, in printing order.

use std::fmt::{self, Display};

use super::Error;

/// The setting that names the case's part of its workload. It chooses cases and cannot be replaced: cases of different
/// parts have different settings.
pub const PART: &str = "part";

/// The settings of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    settings: Vec<(&'static str, String)>,
}

impl Case {
    /// A case with these settings.
    pub fn new(settings: &[(&'static str, &dyn Display)]) -> Self {
        Self { settings: settings.iter().map(|(name, value)| (*name, value.to_string())).collect() }
    }

    /// Whether a given setting does not choose another part.
    pub fn is_of_part(&self, name: &str, value: &str) -> bool {
        name != PART || self.settings.iter().all(|(known, part)| *known != PART || part == value)
    }

    /// Replaces a setting, if there is one of this name.
    ///
    /// # Errors
    /// When a word is given for a number.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let Some((name, old)) = self.settings.iter_mut().find(|(known, _)| *known == name) else {
            return Ok(());
        };
        if old.parse::<f64>().is_ok()
            && !value.parse().is_ok_and(|number: f64| (0.0..=1e12).contains(&number))
        {
            return Err(Error::Setting {
                name,
                value: value.to_owned(),
                wanted: "a number of at least zero",
            });
        }
        value.clone_into(old);
        Ok(())
    }

    /// The names of the settings.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.settings.iter().map(|(name, _)| *name)
    }

    /// The settings.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.settings.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// A setting as text.
    ///
    /// # Panics
    /// When there is no such setting.
    pub fn text(&self, name: &str) -> &str {
        let found = self.settings.iter().find(|(known, _)| *known == name);
        found.map_or_else(|| panic!("the workload has no setting `{name}`"), |(_, value)| value)
    }

    /// A setting as a number.
    ///
    /// # Errors
    /// When it is none.
    pub fn number(&self, name: &'static str) -> Result<f64, Error> {
        let value = self.text(name);
        value.parse().map_err(|_| Error::Setting { name, value: value.to_owned(), wanted: "a number" })
    }

    /// A setting as a whole number of at least one.
    ///
    /// # Errors
    /// When it is none.
    pub fn count(&self, name: &'static str) -> Result<usize, Error> {
        let value = self.text(name);
        let wanted = "a whole number of at least one";
        match value.parse() {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(Error::Setting { name, value: value.to_owned(), wanted }),
        }
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, (name, value)) in self.settings.iter().enumerate() {
            write!(f, "{}{name}={value}", if idx == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}
